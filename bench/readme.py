#!/usr/bin/env python3
"""The tables of measurements, from bench/results.json: between the lines `<!-- make bench -->` and `<!-- end -->`
of docs/measured.md, a table for each machine, and of README.md, the first machine's rows of one thread.

    python bench/readme.py [--check]     # writes them; --check: fails if one is another"""

import json
import os
import sys

import machines as known

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BEGIN, END = "<!-- make bench -->\n", "<!-- end -->"


def duration(seconds):
    return f"{1e3 * seconds:,.0f} ms" if seconds >= 0.1 else f"{1e3 * seconds:.1f} ms"


def spread(low, high):
    return f"{low:.1f}" if f"{low:.1f}" == f"{high:.1f}" else f"{low:.1f} to {high:.1f}"


def line(row):
    best = row["peers"].get(row.get("best"))
    cells = [
        row["text"] + (f", {row['threads']} threads" if row.get("threads", 1) > 1 else ""),
        f"{duration(best['seconds'])} ({row['best']})" if best else "",
        duration(row["seconds"]),
        f"**{best['ratio']:.2f}** ({spread(*best['ratios'])})" if best else "",
        f"{100 * row['of_bound']:.0f} %" if "of_bound" in row else "",
        f"{row['planned'] / row['seconds']:.2f}" if row.get("planned") else "",
        f"{best['peak_rss_mb']:,.0f}, {row['peak_rss_mb']:,.0f} MB" if best and "peak_rss_mb" in row else "",
    ]
    return "| " + " | ".join(cells) + " |"


def table(results):
    m, rows = results["machine"], results["rows"]
    load, steal = max((r.get("load_before", 0) for r in rows.values()), default=0), max(
        (r.get("steal", 0) for r in rows.values()), default=0
    )
    quiet = sorted(r["quiet"] for r in rows.values() if "quiet" in r)
    dates = sorted(r["when"].split()[0] for r in rows.values())
    numbers = [f"{key} {m[key]}" for key in ("family", "model") if m.get(key) is not None]
    kind = f" ({', '.join(numbers)})" if numbers else ""
    text = (
        f"{m['cpu']}{kind}, {m['cores']} cores, level {m['isa']} ({m['gflops_f32_1']:.0f} GFLOP/s f32 and {m['gflops_bf16_1']:.0f} bf16 on one), {m['memory_gib']} GiB; "
        f"PyTorch {results.get('torch', '-')}; {dates[0]}{' to ' + dates[-1] if dates[-1] != dates[0] else ''}; load up to {load:.1f} and steal up to "
        f"{100 * steal:.0f} % while it ran"
        + (
            f"; bursts of multiply-adds beside {len(quiet)} of the rows ran at {100 * quiet[0]:.0f} to {100 * quiet[-1]:.0f} % of their best"
            if quiet
            else ""
        )
        + "."
    )
    words, lines, width = text.split(), [""], 0
    for word in words:
        if width + len(word) > 108:
            lines.append("")
            width = 0
        lines[-1] += (" " if lines[-1] else "") + word
        width = len(lines[-1])
    head = [
        "",
        "| | PyTorch's best (mode) | Lockstep | ratio (spread) | of the bound | `plan` | peak memory |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join(lines + head + [line(r) for r in rows.values()]) + "\n"


def place(page, wanted, check):
    path = os.path.join(ROOT, page)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    before, rest = text.split(BEGIN)
    now, after = rest.split(END)
    if check and now != wanted:
        sys.exit(
            f"{page}: the table of measurements is not that of bench/results.json: run python bench/readme.py"
        )
    if not check:
        with open(path, "w", encoding="utf-8") as f:
            f.write(before + BEGIN + wanted + END + after)


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    known.check()
    with open(os.path.join(ROOT, "bench", "results.json"), encoding="utf-8") as f:
        machines = json.load(f)["machines"]
    first = machines[0]
    few = {**first, "rows": {name: row for name, row in first["rows"].items() if row.get("threads", 1) == 1}}
    place("README.md", table(few), bool(sys.argv[1:]))
    place("docs/measured.md", "\n".join(table(m) for m in machines), bool(sys.argv[1:]))


if __name__ == "__main__":
    main()
