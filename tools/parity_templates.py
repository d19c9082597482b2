#!/usr/bin/env python3
"""Published chat templates, rendered by transformers and by the interpreter here, compared byte for byte; and
what the origins of bytes say an assistant wrote, compared with {% generation %} blocks.

    python tools/parity_templates.py build/tests/template_render [FOLDER]

FOLDER, or LOCKSTEP_TEMPLATES, or LOCKSTEP_DATA/chat-templates, has files *.jinja: collect them from models'
folders, from llama.cpp's models/templates, from TRL's trl/chat_templates (NAME_training.jinja are the copies of
NAME.jinja with {% generation %} blocks). Ten conversations each, with and without a system message, tools,
enable_thinking and add_generation_prompt. Every template that is not refused when it is opened must give
transformers' bytes, or fail where transformers fails, in all of them; at most one in eighteen may be refused.
Masks must agree but for headers and white space, which the patched copies treat in different ways, turns in
which nothing is said, and DIFFERENT. Exit status 1 if not."""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [p for p in sys.path if os.path.abspath(p) != HERE] + [HERE]  # not golden's tokenizers.py
from transformers.utils import chat_template_utils  # noqa: E402

sys.path.append(os.path.join(HERE, "golden"))
import templates as golden  # noqa: E402

TOOLS = golden.TOOLS + [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'Weather <now> & "later" für',
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "a city"},
                    "days": {"type": "integer", "enum": [1, 2, 3]},
                    "unit": {"type": ["string", "null"]},
                    "hours": {"type": "array", "items": {"type": "number"}},
                },
                "required": ["city"],
            },
        },
    }
]
SPECIALS = re.compile(
    r"<[a-z_]+\|>|<\|[a-z_]+>|<[|｜][^|｜<>\s]*[|｜]>|<(?:end|start)_of_turn>"
    r"|\[/?[A-Z_]+\]|<end_of_utterance>"
)
ENDS = ["<｜end▁of▁sentence｜>", "<|END_OF_TURN_TOKEN|>", "<|return|>"]

DIFFERENT = {  # TRL's copies whose blocks say otherwise, and why
    "deepseekv3": "the end of a tool's output is marked as the assistant's",
    "diffusion_gemma": "a tool's answer repeats the name that the assistant called, without a turn of its own",
    "phi3": "the end token behind answers of tools, which are not rendered, is not marked",
    "phi3_5": "the end token behind answers of tools, which are not rendered, is not marked",
    "qwen3": "a turn whose content is a list, which is not rendered, is marked",
}


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **more):
    return {"role": "assistant", "content": content, **more}


def system(content):
    return {"role": "system", "content": content}


def call(i=0):
    arguments = {"city": "Zürich", "days": 2, "x": 1.5, "n": None, "b": True}
    return {
        "id": f"call0000{i}",
        "type": "function",
        "function": {"name": "get_weather", "arguments": arguments},
    }


def answer(content, i=0):
    return {"role": "tool", "name": "get_weather", "tool_call_id": f"call0000{i}", "content": content}


CONVERSATIONS = [
    [user("Hello  ")],
    [system(" You are a pirate.\n"), user("Hi\nthere"), assistant("  Arr! \n"), user("Bye <|im_end|>")],
    [user("1+1?"), assistant("2"), user("2+2?"), assistant("4")],
    [
        user("u"),
        assistant("<think>\nhm\n</think>\n\nDone."),
        user("v"),
        assistant("<think>\ny\n</think>\n\nok"),
    ],
    [
        user("u"),
        assistant("Done.", reasoning_content="deep"),
        user("v"),
        assistant("ok", reasoning_content="again"),
    ],
    [
        system("s"),
        user("u"),
        assistant("", tool_calls=[call()]),
        answer("sunny"),
        assistant("Sunny."),
        user("v"),
    ],
    [user("u"), assistant("I see", tool_calls=[call(), call(1)]), answer("sunny"), answer('{"t": 1}', 1)],
    [
        user([{"type": "text", "text": "part one"}, {"type": "text", "text": " two"}]),
        assistant([{"type": "text", "text": "answer"}]),
    ],
    [user("é日本語🎉 'q' \"d\" \\ {{x}} <b>&amp;"), assistant("ß\u00a0x\u2028y\tz"), user("")],
    [assistant("I begin"), system("late"), user("u1"), user("u2")],
]


def cases():
    for messages in CONVERSATIONS:
        for with_system in (False, True):
            before = [system("Be brief.")] if with_system and messages[0]["role"] != "system" else []
            for tools in (None, TOOLS):
                for prompt in (False, True):
                    for thinking in (None, True, False):
                        variables = {
                            "bos_token": "<s>",
                            "eos_token": "</s>",
                            "pad_token": "<p>",
                            "unk_token": "<u>",
                        }
                        if thinking is not None:
                            variables["enable_thinking"] = thinking
                        yield before + messages, tools, prompt, variables


def render_here(program, template, rows, eos=None):
    """A list of what the program says of each row; a text: refused."""
    lines = []
    for messages, tools, prompt, variables in rows:
        row = {"messages": messages, "add_generation_prompt": prompt, "variables": variables, "eos": eos}
        row["specials"] = sorted(set(SPECIALS.findall(template)))
        lines.append(json.dumps(row if tools is None else {**row, "tools": tools}))
    with tempfile.NamedTemporaryFile("w", suffix=".jinja", newline="", encoding="utf-8") as f:
        f.write(template)
        f.flush()
        run = subprocess.run([program, f.name], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{program} ended with {run.returncode}: {run.stderr}")
    said = [json.loads(line) for line in run.stdout.split("\n") if line]
    return said[0]["refused"] if "refused" in said[0] else said


def compare(program, path, rows):
    """Prints the first difference. True, False, or None: refused."""
    with open(path, newline="", encoding="utf-8") as f:
        template = f.read()
    here = render_here(program, template, rows)
    if isinstance(here, str):
        print(f"refused: {here}")
        return None
    for row, ours in zip(rows, here):
        theirs = golden.render(template, *row)
        failed = isinstance(theirs, Exception)
        if failed != ("error" in ours) or (not failed and theirs != ours["text"]):
            print(
                f"different: {path}: {json.dumps(row[0])[:200]}\n  transformers: {theirs!r}\n  here: {ours}"
            )
            return False
    return True


def generation(template, row):
    """The ranges of {% generation %} blocks, in bytes; None: transformers refuses the conversation."""
    messages, tools, prompt, variables = row
    try:
        texts, ranges = chat_template_utils.render_jinja_template(
            [chat_template_utils._normalize_chat_messages(messages)],
            tools=tools,
            chat_template=template,
            add_generation_prompt=prompt,
            return_assistant_tokens_mask=True,
            **variables,
        )
    except Exception:
        return None
    text = texts[0]
    return [(len(text[:a].encode()), len(text[:b].encode())) for a, b in ranges[0]]


def core(text, ranges, header):
    """Without headers at the begin of each range and white space around it; without those that only end a
    turn. Ranges that touch are one."""
    joined = []
    for a, b in sorted(ranges):
        if joined and joined[-1][1] == a:
            joined[-1][1] = b
        elif a < b:
            joined.append([a, b])
    out = []
    for a, b in joined:
        if header and text[a:b].startswith(header):
            a += len(header)
        part = text[a:b].strip()
        if part and not SPECIALS.fullmatch(part.decode()):
            begin = a + len(text[a:b]) - len(text[a:b].lstrip())
            out.append((begin, begin + len(part)))
    return out


def header_of(template, variables):
    without, prompt = (golden.render(template, [user("x")], None, p, variables) for p in (False, True))
    if isinstance(prompt, Exception):
        return b""
    return prompt[len(os.path.commonprefix([without, prompt])) :].split("<think")[0].rstrip().encode()


def compare_masks(program, path, rows):
    """Of a patched copy: its blocks as read here, and origins of the same template without its blocks."""
    with open(path, newline="", encoding="utf-8") as f:
        patched = f.read()
    plain = re.sub(r"(\{%[-+]?\s*)generation(\s*[-+]?%\})", r"\1if true\2", patched)
    plain = re.sub(r"(\{%[-+]?\s*)endgeneration(\s*[-+]?%\})", r"\1endif\2", plain)
    eos = next((e for e in ENDS if e in patched), "</s>")
    marked, derived = render_here(program, patched, rows, eos), render_here(program, plain, rows, eos)
    equal = differ = 0
    for row, m, d in zip(rows, marked, derived):
        blocks = generation(patched, row)
        if blocks is None or "error" in m:
            continue
        text = m["text"].encode()
        want = core(text, blocks, header_of(patched, row[3]))
        ours = core(text, [r[:2] for r in d["targets"]], b"")
        exact = core(text, [r[:2] for r in m["targets"]], b"") == core(
            text, blocks, b""
        )  # the blocks as read here
        if exact and want == ours:
            equal += 1
        else:
            differ += 1
            if differ == 1:
                print(f"masks differ: {path}: {json.dumps(row[0])[:150]}")
                print("  blocks :", exact, [text[a:b].decode() for a, b in want])
                print("  origins:", [text[a:b].decode() for a, b in ours])
    return equal, differ


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("LOCKSTEP_TEMPLATES")
    folder = folder or os.path.join(os.environ.get("LOCKSTEP_DATA", ""), "chat-templates")
    paths = sorted(glob.glob(os.path.join(folder, "*.jinja")))
    if not paths:
        print(f"skipped: chat templates: no *.jinja in {folder} (LOCKSTEP_TEMPLATES names a folder of them)")
        return
    rows = list(cases())
    results = [compare(sys.argv[1], path, rows) for path in paths]
    print(
        f"{results.count(True)} of {len(paths)} templates give transformers' bytes, {results.count(None)} are"
    )
    print(f"refused, {results.count(False)} differ ({len(rows)} conversations each)")
    bad = False in results or results.count(None) * 18 > len(paths)
    masks = {
        path: compare_masks(sys.argv[1], path, rows) for path in paths if path.endswith("_training.jinja")
    }
    for path, (equal, differ) in masks.items():
        name = os.path.basename(path)[: -len("_training.jinja")]
        why = next((DIFFERENT[k] for k in DIFFERENT if name == k or name.endswith("-" + k)), None)
        print(f"{name}: {equal} masks agree, {differ} differ{': ' + why if differ and why else ''}")
        bad = bad or (differ and (not why or 4 * differ > equal))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
