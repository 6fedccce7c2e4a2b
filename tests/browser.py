"""A real browser, driven by the DevTools protocol over a pipe: pages are opened in it, looked at and listened to."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-unsafe-swiftshader",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip


def executable() -> str | None:
    """Return where a browser is."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One tab; a context manager that ends the browser."""

    def __init__(self) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="pdac-browser-", ignore_cleanup_errors=True)
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        command = [str(executable()), *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"]
        # The protocol is spoken on the descriptors 3 and 4.
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *command], pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out, self._rest, self._number = ours_in, ours_out, b"", 0
        self.events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(20)
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Ask the tab something."""
        return self._call(method, parameters, self._session)

    def evaluate(self, script: str) -> Any:
        """Return what a script in the page comes to."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def size(self, width: int, height: int, dark: bool = False) -> None:
        """Give the window a size and a theme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path, until: str, seconds: float = 60) -> None:
        """Open a file and wait until a script says so."""
        self.events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        self.wait(until, seconds)

    def wait(self, until: str, seconds: float = 60) -> None:
        """Wait until a script comes to something true."""
        end = time.monotonic() + seconds
        while not self.evaluate(f"!!({until})"):
            assert time.monotonic() < end, f"{until} is not so after {seconds:g} s"
            time.sleep(0.1)

    def screenshot(self, path: Path, whole: bool = False) -> bytes:
        """Write what is seen, or all of the page."""
        data = base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"])
        path.write_bytes(data)
        return data

    def problems(self) -> list[str]:
        """Return what the console and the scripts complained of."""
        found = []
        for event in self.events:
            name, said = event["method"], event["params"]
            if name == "Runtime.exceptionThrown":
                found.append(str(said["exceptionDetails"]))
            elif name == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
                found.append(said["entry"]["text"])
            elif name == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
                found.append(str(said["args"]))
        return found

    def requests(self) -> list[str]:
        """Return what was asked for beside the page itself and what lies in it."""
        asked = [one["params"]["request"]["url"] for one in self.events if one["method"] == "Network.requestWillBeSent"]
        return [url for url in asked[1:] if not url.startswith(("data:", "blob:"))]

    def _call(self, method: str, parameters: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == self._number:
                assert "error" not in found, (method, found["error"])
                return dict(found["result"])
            if "method" in found:
                self.events.append(found)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], 60)
            assert ready, "the browser says nothing"
            part = os.read(self._in, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(text))
