#!/usr/bin/env python3
"""`trireme bench sft --peer trl` with a small model: the losses of the steps that both sides take in one order are equal, of all weights and of
adapters.

    bench_sft_test.py TRIREME

Needs torch, transformers, peft, trl, datasets."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

for module in ("torch", "transformers", "peft", "trl", "datasets"):
    if importlib.util.find_spec(module) is None:
        print(f"not run: No module named '{module}'; scripts/bootstrap --peers installs it")
        sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 6


def main():
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for what, flags in (("all weights", []), ("adapters", ["--lora-rank", "4", "--lora-targets", "all-linear"])):
            out = pathlib.Path(folder) / "bench.json"
            words = [sys.argv[1], "bench", "sft", "--preset", "neox-19m", "--conversations", "60", "--seq", "128", "--batch", "2", "--threads", "1", "--steps",
                     "1", "--peer", "trl", "--peer-settings", "packing,grouping", "--curve", STEPS, "--python", sys.executable, "--peer-script",
                     ROOT / "bench/peers/trl_sft.py", "--json", out]
            done = subprocess.run([str(w) for w in words + flags], capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(done.stdout + done.stderr)
            result = json.loads(out.read_text())
            apart, packed, grouped = result["curve"]["largest_difference"], result["peer"]["packing"], result["peer"]["grouping"]
            print(f"{what}: losses of {STEPS} steps differ by at most {apart:.1e}; padding {packed['padding']:.3f} packed, {grouped['padding']:.3f} grouped")
            failed |= not apart < 1e-3 or len(result["curve"]["theirs"]) != STEPS or not 0 <= packed["padding"] < 0.2
    sys.exit(failed)


if __name__ == "__main__":
    main()
