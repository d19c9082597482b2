#!/bin/bash
# pages.sh COMMAND - the pages that the command writes, in a browser: nothing from outside, nothing on the console, readable in a narrow and in a wide window,
# light and dark, and reachable with the keyboard.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/browser.sh"
browser_start

# ---- the checks find what they are for
page() { printf '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>t</title></head><body>%s</body></html>' "$1" >broken.html; visit broken.html 400 light; }
finds() { says "$1" "$PAGE_FAULTS"; }
page '<p>good</p>'; finds '^fine$'; quiet
page '<div style="width:600px">wide</div>'; finds '60[0-9] pixels wide in a window of 400'
page '<p style="font-size:8px">small</p>'; finds 'text of 8 pixels: small'
page '<p style="color:#999">pale</p>'; finds 'contrast 2\.[0-9]: pale'
page '<a href="https://example.com/x">out</a>'; finds 'A href=https://example.com/x leads outside'
page '<script>fetch("http://example.com/data")</script>'; [[ $events == *example.com* ]] || bad "a request to another host is not seen"
page '<script>nowhere()</script>'; [[ $events == *'nowhere is not defined'* ]] || bad "an error of a script is not seen"
page '<button id="a" onclick="this.textContent=1">a</button><button id="b" onmousemove="this.textContent=2">b</button>'
key Tab; says '^a$' 'document.activeElement.id'
key Enter; says '^1$' 'a.textContent'
hover '#b'; says '^2$' 'b.textContent'

# ---- what training writes
try 0 train mlp-mnist --set data.type=shapes --set train.steps=30 --set run.name=first --profile
fine runs/first/report.html
fine runs/first/log/rank-0.memory.html
finish
