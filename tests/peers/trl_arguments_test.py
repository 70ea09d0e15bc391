#!/usr/bin/env python3
"""Every field of TRL's SFTConfig, DPOConfig, ModelConfig and ScriptArguments is a key of dialect trl-sft.

    trl_arguments_test.py TRIREME"""
import dataclasses
import re
import subprocess
import sys

try:
    from trl import DPOConfig, ModelConfig, ScriptArguments, SFTConfig
except ImportError as missing:
    print(f"not run: {missing}; scripts/bootstrap --peers installs it")
    sys.exit(77)

page = subprocess.run([sys.argv[1], "config", "options"], capture_output=True, text=True, check=True).stdout
table = page.split("## Dialect trl-sft\n")[1].split("\n## ")[0]
keys = set(re.findall(r"^\| ([a-z0-9_.*]+) \|", table, re.M))
fields = {field.name for one in (SFTConfig, DPOConfig, ModelConfig, ScriptArguments) for field in dataclasses.fields(one)}
missing = sorted(fields - keys)
print(f"{len(fields)} fields, {len(keys)} keys, missing: {missing}")
sys.exit(1 if missing else 0)
