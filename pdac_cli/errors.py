"""Every error a user can cause, with the exit code it ends in.

A message says what was found, what was expected and what to do, in one line.  ``cli.main`` is the one place that
catches these and turns them into ``error: …`` on standard error.
"""

from __future__ import annotations


class PdacError(Exception):
    """Base of all errors that are not bugs of ours."""

    exit_code = 1


class UsageError(PdacError):
    """An option or combination of options that cannot be meant."""

    exit_code = 2


class DataError(PdacError):
    """Input data that cannot be used: missing, damaged, of the wrong shape or with impossible values."""

    exit_code = 3


class ModelError(PdacError):
    """A checkpoint or a model file that does not fit."""

    exit_code = 4


class StorageError(PdacError):
    """The disk, a permission, a lock or an existing output stood in the way."""

    exit_code = 5


class Stopped(PdacError):  # noqa: N818 -- being stopped is not an error
    """Stopped early on request; running the same command again resumes."""

    exit_code = 6
