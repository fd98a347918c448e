"""A headless Chromium, driven by the DevTools protocol.

It is found on the machine (Chromium or Chrome) or installed from Debian's packages by
``python3 -m tools.browser``.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import websocket

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MISSING", "Browser", "Page", "find_browser", "install"]

NAMES = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
PACKAGE = "chromium-headless-shell"
MISSING = (
    f"no headless browser on this machine: `apt-get install {PACKAGE}`, or have one of "
    f"{', '.join(NAMES)} on the PATH"
)
UNAVAILABLE = 69


def find_browser() -> str | None:
    """Return the path of a browser; None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install() -> int:
    """Install Debian's browser where there is none; return the status of that."""
    if find_browser():
        return 0
    if shutil.which("apt-get") is None:
        print(MISSING, file=sys.stderr)
        return UNAVAILABLE
    # Somebody else may be installing at the same time.
    patient = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (("update",), ("install", "--no-install-recommends", PACKAGE)):
        done = subprocess.run([*patient, *arguments], env=environ, check=False)
        if done.returncode:
            return done.returncode
    return 0


_PATIENCE = 120.0


class Browser:
    """One process of Chromium.

    Args:
        path: the program.
        folder: an empty folder for what it writes.
    """

    def __init__(self, path: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            [
                path,
                "--headless",
                # In a container there is no sandbox to be had, and little shared memory.
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--disable-gpu",
                "--hide-scrollbars",
                "--no-first-run",
                "--remote-debugging-port=0",
                "--remote-allow-origins=*",
                f"--user-data-dir={folder}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._socket = websocket.create_connection(self._address(), timeout=_PATIENCE)
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []

    def _address(self) -> str:
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if "DevTools listening on " in line:
                return line.partition("DevTools listening on ")[2].strip()
        raise RuntimeError(f"the browser ended: {''.join(said)}")

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result; what else comes are `events`."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") != number:
                self.events.append(answer)
                continue
            if "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            result: dict[str, Any] = answer["result"]
            return result

    def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        """Return a page that has loaded `url`."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.resize(width, height)
        page.media(dark=dark)
        page.load(url)
        return page

    def close(self) -> None:
        """End the process, and those that it has started: the program may be a script."""
        self._socket.close()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_PATIENCE)
        assert self._process.stderr is not None
        self._process.stderr.close()


class Page:
    """One page of the browser."""

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self._browser = browser
        self._session = session
        self._target = target

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol on this page."""
        return self._browser.call(method, self._session, **parameters)

    def resize(self, width: int, height: int) -> None:
        """Give the page another size."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )

    def media(self, *, dark: bool = False, still: bool = True, medium: str = "") -> None:
        """Say what the reader prefers, and the medium."""
        scheme = "dark" if dark else "light"
        features = [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
        ]
        self.call("Emulation.setEmulatedMedia", media=medium, features=features)

    def load(self, url: str) -> None:
        """Go to an address and come back once it has loaded."""
        self._browser.events.clear()
        self.call("Page.navigate", url=url)
        self.read(
            "new Promise(done => document.readyState === 'complete' "
            "? done() : addEventListener('load', () => done()))"
        )

    def read(self, expression: str) -> Any:
        """Return what an expression is in the page, once it is known."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text of the first element that a selector finds, as a person sees it."""
        text: str = self.read(f"document.querySelector({json.dumps(selector)}).innerText")
        return text

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements that a selector finds."""
        found: list[str] = self.read(
            f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.innerText)"
        )
        return found

    def click(self, selector: str, index: int = 0) -> None:
        """Click into the middle of an element, with the mouse."""
        found = f"document.querySelectorAll({json.dumps(selector)})[{index}]"
        x, y = self.read(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();"
            f" return [r.x + Math.min(r.width / 2, 60), r.y + r.height / 2]; }})({found})"
        )
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Do one thing with the mouse."""
        pressed = kind in ("mousePressed", "mouseReleased")
        self.call(
            "Input.dispatchMouseEvent",
            type=kind,
            x=x,
            y=y,
            button="left" if pressed else "none",
            clickCount=int(pressed),
        )

    def press(self, *keys: str) -> None:
        """Press keys, one after the other, by their names in the DOM."""
        for key in keys:
            code, text = _KEYS.get(key, (ord(key.upper()[0]), key))
            both = {"key": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **both)
            self.call("Input.dispatchKeyEvent", type="keyUp", **both)

    def type(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.call("Input.insertText", text=text)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Write what is to be seen as a PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def complaints(self) -> list[str]:
        """Return what the page has logged as errors, and every request beyond its own file."""
        said = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            parameters = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                said.append(json.dumps(parameters["exceptionDetails"]))
            if event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                said.append(parameters["entry"]["text"])
            if event["method"] == "Network.requestWillBeSent":
                url = parameters["request"]["url"]
                if not url.startswith("file:"):
                    said.append(f"request for {url}")
        return said

    def close(self) -> None:
        """Close the page."""
        self._browser.call("Target.closeTarget", targetId=self._target)


_KEYS = {
    "Enter": (13, "\r"),
    "Escape": (27, ""),
    "Tab": (9, ""),
    "Home": (36, ""),
    "End": (35, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "PageDown": (34, ""),
}


if __name__ == "__main__":
    sys.exit(install())
