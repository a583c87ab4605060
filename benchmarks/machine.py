"""Description of the machine of a benchmark, printed above its figures and saved with them."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine() -> str:
    """Return processor, number of cores, operating system and Python, in one line."""
    processor = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        processor = names[0] if names else processor
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{processor}, {os.cpu_count()} cores, {platform.system()} {platform.release()}, {python}"
