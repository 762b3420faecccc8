#!/usr/bin/env python3
"""look-html.py FOLDER [PAGE.html..]: opens pages of `firstlight render --to html` in headless Chromium, through ChromeDriver,
390 and 1440 pixels wide, light and dark. It writes a picture of each to FOLDER/NAME-WIDTH-SCHEME.png, and of the first screen
to FOLDER/NAME-first.png (docs/pictures has some of them). Without pages it makes pages of simulated GPUs in FOLDER, and
measures their sizes and how long they take to render. A page must not be wider than the window and must not load or log
anything; every drawing must have a role, a title and a description; its texts must be inside it and inside their boxes, and must
not overlap; and text must have enough contrast with its background (WCAG AA). The exit status is 1 if a page fails."""

import base64
import http.client
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

# Scenario, GPUs and level of each page; `empty` is a machine without anything.
PAGES = (
    ("healthy", 4, "full"),
    ("stock", 4, "standard"),
    ("slow-pair", 4, "standard"),
    ("zeros", 4, "standard"),
    ("narrow-link", 4, "standard"),
    ("library-missing", 4, "quick"),
    ("empty", 0, "quick"),
    ("healthy", 16, "full"),
)
# Reports with this number of GPUs also form the rack.
RACK = 4
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target"))
FIRSTLIGHT = TARGET / "release/firstlight"
# The largest size of a page in bytes, and the longest time to render it in seconds.
BYTES = 2_000_000
SECONDS = 0.2
WIDTHS = (390, 1440)
# The first screen of a page, as in pictures of docs/pictures.
FIRST = {"x": 0, "y": 0, "width": 1100, "height": 760, "scale": 1}
SCHEMES = ("light", "dark")
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
).split()

# Runs in the page, and returns its complaints as a list.
LOOK = """
const wrong = [], wide = document.documentElement.scrollWidth;
if (wide > window.innerWidth) wrong.push(`the page is ${wide} pixels wide, the window ${window.innerWidth}`);
if (document.scripts.length) wrong.push('the page has a script');
if (performance.getEntriesByType('resource').length) wrong.push('the page loads something');
const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1 && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
for (const d of document.querySelectorAll('details')) d.open = true;
for (const svg of document.querySelectorAll('svg')) {
    const name = svg.querySelector('title')?.textContent;
    if (svg.getAttribute('role') !== 'img' || !name || !svg.querySelector('desc')?.textContent)
        wrong.push(`a drawing has no role, title or description: ${name}`);
    const box = svg.getBoundingClientRect(), texts = [...svg.querySelectorAll('text')];
    for (const text of texts)
        if (!inside(text.getBoundingClientRect(), box)) wrong.push(`${name}: '${text.textContent}' is cut off`);
    const rects = [...svg.querySelectorAll('rect.socket, rect.port, rect.end')].map(r => r.getBoundingClientRect());
    for (const text of texts) {
        const t = text.getBoundingClientRect(), x = t.left + 2, y = (t.top + t.bottom) / 2;
        const own = rects.find(r => x > r.left && x < r.right && y > r.top && y < r.bottom);
        if (own && !(t.left > own.left && t.right < own.right && t.top > own.top && t.bottom < own.bottom))
            wrong.push(`${name}: '${text.textContent}' runs over its box`);
    }
    const boxes = texts.map(t => [t, t.getBoundingClientRect()]);
    boxes.forEach(([a, p], n) => boxes.slice(n + 1).forEach(([b, q]) => {
        if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 2 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 4)
            wrong.push(`${name}: '${a.textContent}' lies on '${b.textContent}'`);
    }));
    for (const text of texts.slice(0, 1))
        if (parseFloat(getComputedStyle(text).fontSize) * box.width / svg.viewBox.baseVal.width < 9)
            wrong.push(`${name}: its texts are smaller than 9 pixels`);
}
const parts = c => (c.match(/[\\d.]+/g) || []).map(Number);
const light = c => c.slice(0, 3).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
const behind = e => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
const seen = new Set();
for (const e of document.querySelectorAll('h1, h1 *, p, li *, td, th, dt, dd, pre, summary, b, span, svg text')) {
    if (!e.textContent.trim()) continue;
    const style = getComputedStyle(e), svg = e.closest('svg');
    const color = svg ? style.fill : style.color, ground = behind(e);
    const [a, b] = [light(parts(color)), light(ground)], ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const key = `${color} on ${ground}`;
    if (ratio < 4.5 && !seen.has(key)) { seen.add(key); wrong.push(`'${e.textContent.slice(0, 30)}' is hard to read: ${key}, ${ratio.toFixed(1)}`); }
}
return wrong;
"""


class Driver:
    """A ChromeDriver with one session."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.child = subprocess.Popen(["chromedriver", f"--port={self.port}"], stdout=subprocess.DEVNULL)
        self.session = ""
        options = {"args": [*OPTIONS, f"--user-data-dir={folder}"]}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        until = time.monotonic() + 60
        while True:
            try:
                answer = self.ask("/session", {"capabilities": {"alwaysMatch": capabilities}})
                break
            except ConnectionRefusedError:
                if time.monotonic() > until or self.child.poll() is not None:
                    raise
                time.sleep(0.2)
        self.session = f"/session/{answer['sessionId']}"

    def ask(self, path, body, method="POST"):
        """Sends one command and returns the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        body = None if body is None else json.dumps(body)
        connection.request(method, self.session + path, body, {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())["value"]
        if isinstance(answer, dict) and answer.get("error"):
            raise RuntimeError(f"{path}: {answer['error']}: {answer.get('message', '')}")
        return answer

    def tell(self, command, **parameters):
        """Sends one command of the DevTools protocol and returns the answer."""
        return self.ask("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def end(self):
        """Ends browser and driver."""
        try:
            if self.session:
                self.ask("", None, "DELETE")
        finally:
            self.child.terminate()
            self.child.wait(30)


def window(driver, page, width, height, scheme):
    """Opens the page in a window of that size."""
    driver.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
    driver.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    driver.ask("/url", {"url": page.resolve().as_uri()})


def take(driver, clip, file):
    """Writes a picture of a part of the page."""
    shot = driver.tell("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
    file.write_bytes(base64.b64decode(shot["data"]))


def look(driver, page, to):
    """Writes the pictures of one page; returns every complaint about it."""
    wrong = []
    window(driver, page, FIRST["width"], FIRST["height"], "light")
    take(driver, FIRST, to / f"{page.stem}-first.png")
    for width in WIDTHS:
        for scheme in SCHEMES:
            window(driver, page, width, 1000, scheme)
            name = f"{page.stem}-{width}-{scheme}"
            size = driver.tell("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": width, "height": min(size["height"], 16000), "scale": 1}
            take(driver, clip, to / f"{name}.png")
            wrong += [f"{name}: {what}" for what in driver.ask("/execute/sync", {"script": LOOK, "args": []})]
            logged = driver.ask("/se/log", {"type": "browser"})
            wrong += [f"{name}: the browser says: {entry['message']}" for entry in logged]
    if not base64.b64decode(driver.tell("Page.printToPDF")["data"]).startswith(b"%PDF"):
        wrong.append(f"{page.stem}: cannot be printed")
    return wrong


def validated(folder, name, scenario, gpus, level, *settings):
    """Validates a simulated machine and returns the path of the report."""
    machine, report = folder / name, folder / f"{name}.json"
    shutil.rmtree(machine, ignore_errors=True)
    machine.mkdir()
    words = ["--root", machine]
    if gpus:
        subprocess.run([TARGET / "debug/simgpu", scenario, machine, str(gpus)], check=True, stdout=subprocess.DEVNULL)
        # A rack's page has several hosts, which need different names.
        (machine / "root/proc/sys/kernel/hostname").write_text(f"{name}\n", encoding="ascii")
        words = ["--root", machine / "root", "--set", f'validate.library_path=["{machine.resolve()}/lib"]']
    for setting in settings:
        words += ["--set", setting]
    print(f"look-html: {name}, level {level}: Simulated", flush=True)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run([FIRSTLIGHT, *words, "validate", "--level", level, "--json", report], check=False, **quiet)
    return report


def rendered(page, *words):
    """Renders a page with these arguments; returns complaints about its size and the time that it took."""
    took = []
    for _ in range(5):
        start = time.monotonic()
        subprocess.run([FIRSTLIGHT, *words], check=True, stdout=subprocess.DEVNULL)
        took.append(time.monotonic() - start)
    size, least = page.stat().st_size, min(took)
    print(f"look-html: {page.name}: {size} bytes in {least * 1000:.0f} ms")
    if size > BYTES or least > SECONDS:
        return [f"{page.name}: {size} bytes in {least:.3f} s, expected at most {BYTES} in {SECONDS} s"]
    return []


def made(folder):
    """Makes the pages of simulated GPUs; returns them, and complaints about their sizes and times."""
    pages, wrong, rack = [], [], folder / "rack"
    shutil.rmtree(rack, ignore_errors=True)
    rack.mkdir()

    def render(report):
        page = report.with_suffix(".html")
        wrong.extend(rendered(page, "render", report, "--to", "html", "-o", page))
        pages.append(page)

    for scenario, gpus, level in PAGES:
        report = validated(folder, f"{scenario}-{gpus}", scenario, gpus, level)
        render(report)
        if gpus == RACK:
            shutil.copy(report, rack)
    # A machine that became slower since its baseline, and the machines of a rack.
    before, base = validated(folder, "before", "healthy", RACK, "standard"), folder / "base.json"
    subprocess.run([FIRSTLIGHT, "baseline", "save", before, base, "--force"], check=True, stdout=subprocess.DEVNULL)
    render(validated(folder, "drift", "narrow-link", RACK, "standard", f'validate.baseline="{base.resolve()}"'))
    page = folder / "rack.html"
    wrong += rendered(page, "compare", rack, "--html", page)
    return [*pages, page], wrong


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: look-html.py FOLDER [PAGE.html..]")
    to = pathlib.Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    pages, wrong = ([pathlib.Path(page) for page in sys.argv[2:]], []) if len(sys.argv) > 2 else made(to)
    with tempfile.TemporaryDirectory(prefix="firstlight-look.") as folder:
        driver = Driver(folder)
        try:
            for page in pages:
                found = look(driver, page, to)
                wrong += found
                print(f"look-html: {page.name}: {len(found)} complaints", flush=True)
        finally:
            driver.end()
    for what in wrong:
        print(f"look-html: {what}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
