#!/usr/bin/env python3
"""Compares our training versions of published templates with TRL's: the same texts, the same marks.

    chat_templates_test.py RENDER

RENDER is the program test_render_lines. Needs trl, whose package has both kinds, and jinja2."""
import pathlib
import subprocess
import sys
from importlib.util import find_spec

if find_spec("trl") is None or find_spec("jinja2") is None:
    print("not run: trl or jinja2 is missing; scripts/bootstrap --peers installs it")
    sys.exit(77)

folder = pathlib.Path(find_spec("trl").origin).parent / "chat_templates"
names = ["qwen3", "qwen2_5", "phi3", "llama3", "gemma3", "deepseek_r1_distill"]
files = [str(folder / f"{name}{kind}.jinja") for name in names for kind in ("", "_training")]
compare = pathlib.Path(__file__).resolve().parents[1] / "text" / "chat" / "compare_templates.py"
run = subprocess.run([sys.executable, str(compare), sys.argv[1], *files], capture_output=True, text=True)
print(run.stdout, run.stderr)
expected = f"training versions of {', '.join(names)}: "
sys.exit(0 if run.returncode == 0 and expected in run.stdout and " 0 differ" in run.stdout else 1)
