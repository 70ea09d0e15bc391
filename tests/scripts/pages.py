"""What a page shows: its fenced blocks, commands behind a prompt and the lines that they print."""
import re

LEFT_OUT = "..."


class Command:
    """A command behind "hN$ " or "$ ", its here-document included, and the lines under it. host: None without a number."""

    def __init__(self, host, text, line):
        self.host, self.text, self.line, self.prints = host and int(host), text, line, []

    def __str__(self):
        return f"line {self.line}: {f'h{self.host}' if self.host else ''}$ {self.text}"


def commands_in(lines, first=1):
    """The commands of one block; first: the number of its first line. What stands before the first command is left out."""
    found, ends, open_line = [], None, False
    for number, line in enumerate(lines, first):
        if ends:
            found[-1].text += "\n" + line
            ends = None if line == ends else ends
        elif open_line:
            found[-1].text += "\n" + line
        elif match := re.match(r"(?:h(\d))?\$ (.*)", line):
            found.append(Command(match[1], match[2], number))
            here = re.search(r"<<'(\w+)'", line)
            ends = here and here[1]
        elif found and line.strip():
            found[-1].prints.append(line)
        open_line = bool(found) and not found[-1].prints and not ends and line.endswith("\\")
    return found


class Block:
    """A fenced block. directive: the comment of the form <!-- ... --> in the line before it, or None."""

    def __init__(self, language, directive, line):
        self.language, self.directive, self.line, self.lines = language, directive, line, []


def blocks_of(page):
    """All fenced blocks, in order."""
    found, inside, before = [], False, ""
    for number, line in enumerate(page.splitlines(), 1):
        if inside and line.strip() == "```":
            inside = False
        elif inside:
            found[-1].lines.append(line.removeprefix(indent))
        elif match := re.match(r"( *)```(\w*)$", line):
            directive = re.fullmatch(r"\s*<!-- (.*) -->", before)
            found.append(Block(match[2], directive and directive[1], number + 1))
            inside, indent = True, match[1]
        before = line
    return found


def form(line):
    """A line without what another machine, another hour or another compiler changes: numbers, whether one is the best of them,
    hashes, widths of columns."""
    line = line.replace(", best so far", "")
    line = re.sub(r"\b[0-9a-f]{16}\b", "#", line)
    line = re.sub(r"[-+]?\d[\d.]*(e[-+]?\d+)?", "#", line, flags=re.IGNORECASE)
    line = re.sub(r"(# )(M|G|T|k)(B|FLOP)", r"\1\3", re.sub(r"#([KMGT])", r"# \1", line))
    return " ".join(line.split())


NUMBER = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?(?:e[-+]?\d+)?)\b(?!\.\d)(?! ?(?:m?s|min|h|[kMGT]?B|[kMGT]?B/s|GFLOPS?|\S+/s)\b)")


def same_form(wanted, found, begins):
    return form(found).startswith(form(wanted)) if begins else form(found) == form(wanted)


def alike(wanted, found, begins):
    """Of one form, and numbers that are not times, rates or sizes of memory differ by at most a twentieth."""
    pairs = list(zip(NUMBER.findall(wanted), NUMBER.findall(found)))
    return same_form(wanted, found, begins) and all(abs(float(a) - float(b)) <= max(0.05 * abs(float(a)), 0.02) for a, b in pairs)


def missing_line(prints, output, fits=same_form):
    """The first line of the page that the output has not, behind those before it; "..." ends a line of which more was printed, and
    alone stands for lines that the page leaves out."""
    lines = output.splitlines()
    for line in prints:
        if line.strip() == LEFT_OUT:
            continue
        head = line.removesuffix(LEFT_OUT)
        at = next((i for i, found in enumerate(lines) if fits(head, found, head != line)), None)
        if at is None:
            return line
        del lines[:at + 1]
    return None
