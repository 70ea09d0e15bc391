#!/usr/bin/env python3
"""Compares chat templates as Trireme renders them with jinja2, in the environment that transformers makes of it.

compare_templates.py RENDER TEMPLATES...: RENDER is the program test_render_lines, TEMPLATES are files. Every template is
rendered over every conversation below; texts and the places of {% generation %} blocks have to be equal, and where jinja2
raises, Trireme has to refuse. Of a NAME.jinja beside a NAME_training.jinja that has a training version of ours, that one
has to give the same text and places as NAME_training.jinja. Prints counts; exit code 1 if anything differs.
"""
import json
import pathlib
import subprocess
import sys
from contextlib import contextmanager
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime(2024, 2, 29, 13, 5, 9)


class Generation(jinja2.ext.Extension):
    """transformers' AssistantTracker."""

    tags = {"generation"}

    def __init__(self, environment):
        super().__init__(environment)
        environment.extend(blocks=None, places=None)

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_record"), [], [], body).set_lineno(line)

    def _record(self, caller):
        text = caller()
        begin = len("".join(self.environment.blocks))
        self.environment.places.append([begin, begin + len(text)])
        return text


class Dictionary:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


class Namespace(jinja2.utils.Namespace):
    """transformers' TemplateNamespace."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"])
    made.filters["tojson"] = tojson
    made.globals.update(
        raise_exception=raise_exception, strftime_now=NOW.strftime, dict=Dictionary(), namespace=Namespace
    )
    return made


def with_jinja(source, variables):
    env = environment()
    try:
        template = env.from_string(source)
        env.blocks, env.places = [], []
        for block in template.generate(**variables):
            env.blocks.append(block)
        return {"text": "".join(env.blocks), "generated": env.places}
    except Exception as error:  # whatever a template makes Python raise
        return {"error": f"{type(error).__name__}: {error}"}


def with_trireme(render, cases, training=False):
    lines = "".join(
        json.dumps({"template": source, "variables": variables, "training": training}) + "\n" for source, variables in cases
    )
    run = subprocess.run([render], input=lines.encode(), capture_output=True)
    if run.returncode != 0:
        sys.exit(f"{render} ended with {run.returncode}: {run.stderr.decode()[-2000:]}")
    results = [json.loads(line) for line in run.stdout.decode().split("\n") if line]
    if len(results) != len(cases):
        sys.exit(f"{render} answered {len(results)} of {len(cases)} cases")
    return results


def weather_tool(**extra):
    return {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Says how the weather is <now> & \"here\"",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The city, e.g. Zürich"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                    "days": {"type": "integer", "minimum": 1},
                    "where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": ["number", "null"]}}, "required": ["lat"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["city"],
            },
            **extra,
        },
    }


def call(name="get_weather", arguments=None, **extra):
    return {"type": "function", "function": {"name": name, "arguments": arguments or {"city": "Bern", "days": 2}}, **extra}


def conversations():
    system = {"role": "system", "content": "You are a helpful assistant."}
    hello = {"role": "user", "content": "Hello, who are you?"}
    answer = {"role": "assistant", "content": "I am a model."}
    more = {"role": "user", "content": "And what is 2 + 2?"}
    four = {"role": "assistant", "content": "It is 4."}
    reasoned = {"role": "assistant", "content": "It is 4.", "reasoning_content": "Two and two make four.", "thinking": "Two and two make four."}
    tagged = {"role": "assistant", "content": "<think>\nTwo and two make four.\n</think>\n\nIt is 4."}
    called = {"role": "assistant", "content": "", "tool_calls": [call(id="call00001")]}
    result = {"role": "tool", "name": "get_weather", "content": "{\"sky\": \"clear\", \"t\": 21.5}", "tool_call_id": "call00001"}
    ask = {"role": "user", "content": "How is the weather in Bern?"}
    told = {"role": "assistant", "content": "Clear, 21.5 degrees."}
    parts = lambda *texts: [{"type": "text", "text": text} for text in texts]
    tools = [weather_tool(), {"type": "function", "function": {"name": "stop", "description": "Ends", "parameters": {"type": "object", "properties": {}}}}]
    yield "one question", {"messages": [hello], "add_generation_prompt": True}
    yield "one turn", {"messages": [hello, answer]}
    yield "system, one turn", {"messages": [system, hello, answer]}
    yield "two turns", {"messages": [hello, answer, more, four]}
    yield "system, two turns, prompt", {"messages": [system, hello, answer, more], "add_generation_prompt": True}
    yield "system alone", {"messages": [system]}
    yield "no message", {"messages": []}
    yield "assistant first", {"messages": [answer, hello]}
    yield "two users in a row", {"messages": [hello, more, four]}
    yield "two assistants in a row", {"messages": [hello, answer, four]}
    yield "unknown role", {"messages": [hello, {"role": "narrator", "content": "Silence."}, four]}
    yield "developer", {"messages": [{"role": "developer", "content": "Be brief."}, hello, answer]}
    yield "late system", {"messages": [hello, answer, system, more, four]}
    yield "unicode", {"messages": [{"role": "user", "content": "Grüße, 世界 \U0001f600 — naïve ﬁ ß"}, {"role": "assistant", "content": "مرحبا \u200d e\u0301 \u2028 end"}]}
    yield "white space", {"messages": [{"role": "user", "content": "  \n padded \t\n"}, {"role": "assistant", "content": "\n\n answer \u00a0 \n"}, more, {"role": "assistant", "content": "   "}]}
    yield "empty", {"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": ""}]}
    yield "markup", {"messages": [{"role": "user", "content": "<b>&amp; 'x' \"y\" {{ bos }} {% if %} </s> <|im_end|>"}, four]}
    yield "no content", {"messages": [hello, {"role": "assistant"}, more, four]}
    yield "parts", {"messages": [{"role": "system", "content": parts("Be kind.")}, {"role": "user", "content": parts("Hello", " again ")}, {"role": "assistant", "content": parts("Yes.")}]}
    yield "an image", {"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}, four], "add_generation_prompt": True}
    yield "image by url", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "This?"}]}, {"role": "assistant", "content": parts("A cat")}]}
    yield "reasoning", {"messages": [hello, reasoned, more, reasoned]}
    yield "reasoning in tags", {"messages": [hello, tagged, more, tagged]}
    yield "reasoning, prompt", {"messages": [hello, tagged, more], "add_generation_prompt": True}
    yield "thinking off", {"messages": [hello], "add_generation_prompt": True, "enable_thinking": False}
    yield "thinking on", {"messages": [system, hello], "add_generation_prompt": True, "enable_thinking": True, "reasoning_effort": "high"}
    yield "tools, question", {"messages": [ask], "tools": tools, "add_generation_prompt": True}
    yield "tools, system, question", {"messages": [system, ask], "tools": tools, "add_generation_prompt": True}
    yield "tool round", {"messages": [ask, called, result, told], "tools": tools}
    yield "tool round, no tools", {"messages": [ask, called, result, told]}
    yield "tool round open", {"messages": [system, ask, called, result], "tools": tools, "add_generation_prompt": True}
    yield "two calls", {"messages": [ask, {"role": "assistant", "content": "Both.", "tool_calls": [call(id="aaaaaaaaa"), call("stop", {"why": None, "n": [1, 2.5, True], "o": {"é": "ü\n"}}, id="bbbbbbbbb")]}, {**result, "tool_call_id": "aaaaaaaaa"}, {"role": "tool", "name": "stop", "content": "ok", "tool_call_id": "bbbbbbbbb"}, told], "tools": tools}
    yield "arguments as text", {"messages": [ask, {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "id": "aaaaaaaaa", "function": {"name": "get_weather", "arguments": "{\"city\": \"Bern\"}"}}]}, result, told], "tools": tools}
    yield "call with reasoning", {"messages": [ask, {"role": "assistant", "reasoning_content": "I need the tool.", "thinking": "I need the tool.", "content": "Wait.", "tool_calls": [call(id="aaaaaaaaa")]}, result, {**told, "reasoning_content": "Done.", "thinking": "Done."}, more], "tools": tools, "add_generation_prompt": True}
    yield "bare call", {"messages": [ask, {"role": "assistant", "tool_calls": [{"name": "get_weather", "arguments": {"city": "Bern"}}]}, {"role": "tool", "content": parts("clear")}], "tools": [weather_tool()["function"]]}
    yield "returning tools", {"messages": [ask, told], "tools": [weather_tool(**{"return": {"type": "string", "description": "how"}})]}
    yield "strange values", {"messages": [hello, answer], "tools": [weather_tool(strict=True, ratio=1e16, small=1.5e-7, big=2**53, minus=-0.0)], "custom": [1.0, 100000.0]}
    yield "documents", {"messages": [hello, answer], "documents": [{"title": "T", "text": "A text", "doc_id": 1}], "builtin_tools": ["browser", "python"], "date_string": "1 Jan 2025"}
    yield "many turns", {"messages": [system] + [hello, answer, more, four] * 6 + [hello], "add_generation_prompt": True}
    yield "numbers as content", {"messages": [{"role": "user", "content": 5}, {"role": "assistant", "content": 1.5}, {"role": "user", "content": True}, four]}
    yield "odd keys", {"messages": [{"role": "user", "content": "x", "items": [1], "name": "Ann", "weight": 1, "train": False}, {"role": "assistant", "content": "y", "prefix": True, "channel": "final", "recipient": "all"}]}


def complete(variables):
    """As transformers passes them: keys without value dropped from messages; tools and documents always there."""
    messages = [{key: value for key, value in message.items() if value is not None} for message in variables["messages"]]
    return {
        "tools": None,
        "documents": None,
        "add_generation_prompt": False,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        **variables,
        "messages": messages,
    }


def joined(places):
    """Joins blocks that touch and leaves out empty ones."""
    made = []
    for begin, end in places:
        if begin == end:
            continue
        if made and made[-1][1] == begin:
            made[-1] = [made[-1][0], end]
        else:
            made.append([begin, end])
    return made


def compare_training_versions(render, files, asked):
    """Says how many of our training versions give the text and places of those beside the templates."""
    same = differing = refused = 0
    names = []
    for file in files:
        theirs_file = file.with_name(file.stem + "_training.jinja")
        if theirs_file not in files:
            continue
        source = file.read_text(encoding="utf-8")
        found = with_trireme(render, [(source, variables) for _, variables in asked], training=True)
        if "unknown" in found[0]:
            continue
        names.append(file.stem)
        for (name, variables), ours in zip(asked, found):
            theirs = with_jinja(theirs_file.read_text(encoding="utf-8"), variables)
            if "error" in ours and "error" in theirs:
                refused += 1
                continue
            equal = (
                "error" not in ours
                and "error" not in theirs
                and ours["text"] == theirs["text"]
                and joined(ours["generated"]) == joined(theirs["generated"])
            )
            same, differing = same + equal, differing + (not equal)
            if not equal:
                print(f"{file.name}, {name}: the training version differs\n  here   {json.dumps(ours)[:900]}\n  theirs {json.dumps(theirs)[:900]}")
    print(f"training versions of {', '.join(names)}: {same} same, {differing} differ, {refused} refused by both")
    return differing


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    render, files = sys.argv[1], [pathlib.Path(name) for name in sys.argv[2:]]
    asked = [(name, complete(variables)) for name, variables in conversations()]
    totals = {"same text": 0, "both refuse": 0, "differs": 0, "refused here only": 0, "refused by jinja2 only": 0}
    marked = 0
    for file in files:
        source = file.read_text(encoding="utf-8")
        found = with_trireme(render, [(source, variables) for _, variables in asked])
        for (name, variables), ours in zip(asked, found):
            theirs = with_jinja(source, variables)
            if "error" in ours and "error" in theirs:
                kind = "both refuse"
            elif "error" in ours:
                kind = "refused here only"
            elif "error" in theirs:
                kind = "refused by jinja2 only"
            else:
                kind = "same text" if ours == theirs else "differs"
                marked += len(theirs["generated"])
            totals[kind] += 1
            if kind not in ("same text", "both refuse"):
                print(f"{file.name}, {name}: {kind}\n  here   {json.dumps(ours)[:400]}\n  jinja2 {json.dumps(theirs)[:400]}")
    print(f"{len(files)} templates x {len(asked)} conversations, jinja2 {jinja2.__version__}")
    for kind, count in totals.items():
        print(f"  {count:6} {kind}")
    print(f"  {marked:6} places of generation blocks equal" if totals["differs"] == 0 else "")
    differing = compare_training_versions(render, files, asked)
    return 1 if differing or sum(totals.values()) != totals["same text"] + totals["both refuse"] else 0


if __name__ == "__main__":
    sys.exit(main())
