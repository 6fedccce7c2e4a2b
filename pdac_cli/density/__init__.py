"""The projected Gaussian mixture, numpy only: functions of arrays, and frozen dataclasses of arrays."""
