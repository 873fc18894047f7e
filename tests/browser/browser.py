"""browser.py - a page in headless Chromium, for tests: runs JavaScript, clicks, keys, screenshots.

    from browser import Browser, check
    with Browser(dark=True) as b:
        b.open("page.html")
        check(b.js("return document.title") == "A page", "the title")
        b.click("#heads-2")
        b.key("Tab")
        b.screenshot("page.png")
    # leaving the block fails if the page has written errors to the console

Only Python's own library, and Debian's chromium and chromium-driver (WebDriver over loopback HTTP).
check() prints what failed and counts; finish() ends the program with the verdict.
"""
import base64
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Space": " ", "Left": "\ue012",
        "Up": "\ue013", "Right": "\ue014", "Down": "\ue015", "Home": "\ue011", "End": "\ue010",
        "Shift": "\ue008", "Backspace": "\ue003", "Delete": "\ue017", "Control": "\ue009"}
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
counts = {"checks": 0, "failed": 0}


def check(condition, what):
    """Counts a check; prints it when it fails."""
    counts["checks"] += 1
    if not condition:
        counts["failed"] += 1
        print(f"FAILED: {what}", flush=True)
    return bool(condition)


def near(a, b, tolerance, what):
    """Numbers, or lists of them nested alike, that differ by at most tolerance."""
    def far(x, y):
        if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
            return len(x) != len(y) or any(far(p, q) for p, q in zip(x, y))
        return x != y and (x is None or y is None or not abs(x - y) <= tolerance)
    return check(not far(a, b), f"{what}: {str(a)[:200]} is not {str(b)[:200]}")


def finish():
    """Ends the program: 0 when every check held."""
    print(f"{counts['checks']} checks, {counts['failed']} failed")
    sys.exit(1 if counts["failed"] or not counts["checks"] else 0)


class Browser:
    """A Chromium of its own with a fresh profile, ended with the block."""

    def __init__(self, width=1100, height=900, dark=False, script=True, errors=True):
        self.fail_on_errors = errors
        self.folder = tempfile.mkdtemp(prefix="qkv-browser-")
        self.driver = subprocess.Popen(
            [shutil.which("chromedriver"), "--port=0"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=dict(os.environ, HOME=self.folder))
        self.port = None
        for line in self.driver.stdout:
            found = re.search(r"successfully on port (\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                     "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
                     "--disable-component-update", "--force-prefers-reduced-motion",
                     f"--window-size={width},{height}", f"--user-data-dir={self.folder}/profile"]
        options = {"binary": shutil.which("chromium"), "args": arguments}
        if not script:
            options["prefs"] = {"profile.managed_default_content_settings.javascript": 2}
        wanted = {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"}}}}
        try:
            self.session = self._call("POST", "", wanted, plain=True)["sessionId"]
            self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=self.folder)
            self.media("prefers-color-scheme", "dark" if dark else "light")
        except Exception:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        try:
            if kind is None and self.fail_on_errors:
                for line in self.console():
                    check(False, f"the page says: {line}")
        finally:
            self.close()

    def close(self):
        if getattr(self, "session", None):
            try:
                self._call("DELETE", "")
            except (OSError, RuntimeError):
                pass
        self.driver.terminate()
        self.driver.wait()
        self.driver.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, method, path, body=None, plain=False):
        base = f"http://127.0.0.1:{self.port}/session"
        url = base if plain else f"{base}/{self.session}{path}"
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"},
                                         method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def cdp(self, command, **parameters):
        """A command of the DevTools protocol."""
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def media(self, feature, value):
        """What the page's media queries see: ("prefers-color-scheme", "dark"); type "print"."""
        if feature == "type":
            self.cdp("Emulation.setEmulatedMedia", media=value)
        else:
            self.cdp("Emulation.setEmulatedMedia", features=[{"name": feature, "value": value}])

    def open(self, path):
        """A file, by its path; returns seconds until it was loaded."""
        start = time.monotonic()
        self._call("POST", "/url", {"url": pathlib.Path(path).resolve().as_uri()})
        return time.monotonic() - start

    def js(self, body, *arguments):
        """The value that the body of an async function returns; arguments[0] .. are passed."""
        wrapped = ("const done = arguments[arguments.length - 1];"
                   "(async (...args) => {" + body + "})(...[...arguments].slice(0, -1))"
                   ".then((value) => done({value}), (error) => done({error: String(error)}));")
        reply = self._call("POST", "/execute/async", {"script": wrapped, "args": list(arguments)})
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply.get("value")

    def wait(self, condition, what, seconds=10):
        """Waits until the JavaScript expression holds."""
        end = time.monotonic() + seconds
        while not self.js(f"return Boolean({condition})"):
            if time.monotonic() > end:
                return check(False, f"{what}: not within {seconds} s")
            time.sleep(0.05)
        return True

    def element(self, css):
        return self._call("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        self._call("POST", f"/element/{self.element(css)}/click")

    def hover(self, css):
        origin = {ELEMENT: self.element(css)}
        self._act("pointer", [{"type": "pointerMove", "duration": 0, "origin": origin,
                               "x": 0, "y": 0}], parameters={"pointerType": "mouse"})

    def key(self, *keys):
        """Presses keys one after another: names of KEYS or characters; "Shift+Tab" together."""
        actions = []
        for key in keys:
            together = [KEYS.get(k, k) for k in (key.split("+") if len(key) > 1 else [key])]
            actions += [{"type": "keyDown", "value": k} for k in together]
            actions += [{"type": "keyUp", "value": k} for k in reversed(together)]
        self._act("key", actions)

    def _act(self, kind, actions, **more):
        self._call("POST", "/actions",
                   {"actions": [{"type": kind, "id": kind, "actions": actions, **more}]})

    def type(self, css, text):
        """Replaces what is in a field, as a user would."""
        self._call("POST", f"/element/{self.element(css)}/clear")
        self._call("POST", f"/element/{self.element(css)}/value", {"text": text})

    def console(self):
        """Errors and warnings that the page has written since the last call."""
        log = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in log if entry["level"] in ("SEVERE", "WARNING")]

    def download(self, suffix, seconds=10):
        """Bytes of a file that the page has handed over, which is removed; None: none came.

        Chromium reserves the name with an empty file, and renames the whole one over it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name in os.listdir(self.folder):
                if name.endswith(suffix):
                    path = os.path.join(self.folder, name)
                    data = pathlib.Path(path).read_bytes()
                    if data:
                        os.remove(path)
                        return data
            time.sleep(0.05)
        check(False, f"no file {suffix} came")
        return None

    def screenshot(self, path, whole=False):
        """A PNG of what is seen, or of the whole page."""
        if whole:
            size = self.cdp("Page.getLayoutMetrics")["cssContentSize"]
            shot = self.cdp("Page.captureScreenshot", captureBeyondViewport=True,
                            clip={**size, "scale": 1})["data"]
        else:
            shot = self._call("GET", "/screenshot")
        pathlib.Path(path).write_bytes(base64.b64decode(shot))
