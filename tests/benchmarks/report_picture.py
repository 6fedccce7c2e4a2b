"""The picture of a report in the first README: the sample's, as a browser shows it, small.

python -m tests.benchmarks.report_picture           # writes tests/benchmarks/report.png; needs chromium
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

from tests.browser import Browser

SAMPLE = Path(__file__).parents[2] / "sample_data"
OUTPUT = Path(__file__).with_name("report.png")
WIDTH, HEIGHT = 1240, 1180  # of the window
SHOWN = 760  # pixels of the picture's width
COLOURS = 128  # chosen so that few bright points keep theirs


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Browser() as browser:
        folder = Path(name)
        for arguments in (
            ["select", "digits.h5", "-n", "100", "-o", folder / "pdac.json"],
            ["select", "digits.h5", "-n", "100", "--method", "uniform", "-o", folder / "uniform.json"],
            ["report", "digits.h5", folder / "pdac.json", folder / "uniform.json", "--images", "digits-images.h5", "-o",
             folder / "r.html"],
        ):  # fmt: skip
            subprocess.run([sys.executable, "-m", "pdac_cli", *map(str, arguments), "-q"], cwd=SAMPLE, check=True)
        browser.size(WIDTH, HEIGHT)
        browser.open(folder / "r.html", "document.body && document.body.dataset.drawn")
        data = browser.screenshot(folder / "shot.png")
    image = Image.open(io.BytesIO(data)).convert("RGB")
    image = image.resize((SHOWN, SHOWN * image.height // image.width), Image.Resampling.LANCZOS)
    image.quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(OUTPUT, optimize=True)
    print(f"{OUTPUT}: {OUTPUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
