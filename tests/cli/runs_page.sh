#!/usr/bin/env bash
# runs_page.sh COMMAND - `lockstep runs --html` and the table of `lockstep runs`, of recipes' runs, a program's run, a run of 100,000 steps, one with a long name,
# one that is damaged and one that has not begun; then the page in a browser, where there is one.
source "$(dirname "$0")/common.sh"
source "$(dirname "$0")/browser.sh"

for lr in 0.01 0.001; do
    try 0 train mlp-mnist --set data.type=shapes --set train.steps=60 --set run.name=lr-$lr --set optimizer.lr=$lr
done
# a run of so many steps, with one wild one; of a program of one's own; that has not begun; damaged
long="long <b>&name: $(printf 'x%.0s' {1..150})"
mkdir -p "runs/$long" runs/own runs/begun runs/damaged
cp runs/lr-0.01/recipe.yaml "runs/$long/recipe.yaml"
sed -i 's/global_batch: .*/global_batch: 512/' "runs/$long/recipe.yaml"
printf '{"state":"failed","time":1,"step":100000,"epoch":3,"loss":0.5,"eval":{"step":9,"loss":0.25,"accuracy":0.5,"r2_z":0.125},"error":null}' >"runs/$long/result.json"
awk 'BEGIN { for (i = 1; i <= 100000; i++) printf "{\"kind\":\"step\",\"step\":%d,\"epoch\":0,\"loss\":%s,\"lr\":0.1,\"samples\":8,\"seconds\":0.5,\"attempt\":0}\n", i, i == 77777 ? 987 : 1 / i }' >"runs/$long/metrics.jsonl"
: >runs/own/config.txt
printf '{"state":"finished","time":1,"step":2,"epoch":1,"metrics":{"residual":0.03125,"memory":3}}' >runs/own/result.json
for i in 1 2; do printf '{"kind":"report","report":%d,"step":%d,"epoch":0,"residual":0.%d,"memory":3,"seconds":1,"attempt":0}\n' $i $i $i; done >runs/own/metrics.jsonl
cp runs/lr-0.01/recipe.yaml runs/begun
cp runs/lr-0.01/recipe.yaml runs/damaged; echo '{"state":' >runs/damaged/result.json

# ---- the table has a column for each metric that a run has
try 0 runs
has out '^run +state +step +epoch +loss +eval loss +accuracy +r2_z +residual +memory +best +checkpoint +updated'
has out '^own +finished +2 +1 +0\.03125 +3 '
has out "^lr-0.01 +finished +60 .* [0-9.]+% .*eval_[a-z]+ [0-9.]+%? at [0-9]+ +step-00000060"
has out '^begun +broken'
try 0 runs --json; has out '"name":"own",.*"metrics":\{"residual":0\.03125,"memory":3\}'

# ---- the page
try 0 runs --html pages/runs.html; has err 'written pages/runs.html'
has pages/runs.html 'href="../runs/lr-0.01/report.html"'
has pages/runs.html 'long &lt;b&gt;&amp;name'
[ "$(stat -c %s pages/runs.html)" -lt 600000 ] || bad "the page has $(stat -c %s pages/runs.html) bytes"
grep -q ',987\]' pages/runs.html || bad "the greatest loss of 100,000 is not in the page"
try 0 runs runs --html runs/all.html; has runs/all.html 'href="./lr-0.01/report.html"'
refused 2 'no runs in pages' runs pages --html x.html
refused 2 '--html and --json: give one' runs --html x.html --json
refused 2 '--metrics and --html: give one' runs --html x.html --metrics own
refused 1 'null' runs --html /dev/null/no/such.html
[ ! -e x.html ] || bad "a refused page was written"
# every number is text: of each metric and run the first, the last, the least, the greatest; the best; recipes
tr '\n' ' ' <pages/runs.html | sed 's/<[^>]*>/|/g; s/|[| ]*/|/g' >words
has words '\|own\|0\.1 \|at 1\|0\.2 \|at 2\|0\.1 \|at 1\|0\.2 \|at 2\|'
has words '\|1 \|at 1\|.*\|1e-5 \|at 100000\|1e-5 \|at 100000\|987 \|at 77777\|'
[ "$(grep -o '|best|' words | wc -l)" -ge 3 ] || bad "the best of the runs are not marked"
has words '\|optimizer\.lr\|(0\.01\|){3}0\.001\|0\.01\|'

[ $failures -eq 0 ] || finish
browser_start
fine pages/runs.html
whole pages/runs.html
visit pages/runs.html 1280 light
says '^6 6$' 'rows.length + " " + document.querySelectorAll("input:checked").length'
says '^3$' 'document.querySelectorAll("path.curve").length' # loss: of three runs
js 'headings.findIndex(h => h.textContent == "loss")'
click "#table th:nth-child($((value + 1))) button"
order='Array.from(runsTable.tBodies[0].rows).map(r => r.cells[0].textContent.trim().slice(0, 7)).join(" ")'
says '^long .* lr-0\.01 lr-0\.00 (own|begun|damaged) ' "$order"
says ascending 'document.querySelector("[aria-sort]").getAttribute("aria-sort")'
key Enter # the button has the focus: the other way
says descending 'document.querySelector("[aria-sort]").getAttribute("aria-sort")'
says '^lr-0\.00 lr-0\.01 long ' "$order"
# the best of each metric of which it is known what is better
says '^lr-0\.01,long <b,long <b$' '[...document.querySelectorAll("#table .best")].map(e => e.closest("tr").cells[0].textContent.trim().slice(0, 7))'
# the metrics of all runs, each with those that have it, drawn and in numbers
says 'loss lr .*eval_loss eval_accuracy.*residual' 'Array.from(metric.options).map(o => o.value).join(" ")'
js '(metric.value = "residual", metric.dispatchEvent(new Event("input")))'
says '^1 own$' 'document.querySelectorAll("path.curve").length + " " + legend.textContent'
numbers='[...figure.querySelectorAll(".metric tbody tr")].filter(r => r.checkVisibility()).map(r => [r.closest(".metric").querySelector("h3").textContent, r.cells[0].textContent].join(" "))'
says '^residual own$' "$numbers"
js '(metric.value = "loss", log.checked = true, smooth.value = 0.9, log.dispatchEvent(new Event("input")))'
says '^3$' 'document.querySelectorAll("path.curve").length'
says '^false$' 'plot.innerHTML.includes("NaN")'
# the pointer and the arrow keys show values, with the extremes of many steps: the wild one is not lost
hover .plot; says 'lr-0\.01  [0-9.e-]+ smoothed; [0-9.e-]+  \(step' 'chart.tip.textContent'
js '(plot.focus(), chart.place = 77812 / chart.frame.x1 + 0.01, 0)'; key ArrowLeft
says '^long .*  [0-9.e-]+ smoothed; [0-9.e-]+, [0-9.e-]+ to 987  \(step 77813' 'chart.tip.textContent'
says '^status polite$' 'chart.tip.getAttribute("role") + " " + chart.tip.getAttribute("aria-live")'
# the keys in which the ticked runs differ
says 'optimizer\.lr' 'recipes.innerText'
says '^false$' 'recipes.innerText.includes("seed")'
js '(rows.forEach((r, k) => { boxes[k].checked = /^ *lr-0.01/.test(r.textContent); boxes[k].dispatchEvent(new Event("change")) }))'
says '^1 Tick two runs' 'document.querySelectorAll("path.curve").length + " " + none.textContent'
says '^loss lr-0.01$' "$numbers"
# the search: runs that are hidden are not drawn
js '(boxes.forEach(b => { b.checked = true }), find.value = "LR- finished", find.dispatchEvent(new Event("input")))'
says '^2 2 of 6 runs$' 'rows.filter(r => r.checkVisibility()).length + " " + found.textContent'
says '^loss lr-0.001,loss lr-0.01$' "$numbers"
visit pages/runs.html 400 dark
says '^true$' 'runsTable.rows[1].cells[0].getBoundingClientRect().width < 300' # a long name is wrapped
hover .plot; says '^fine$' "$PAGE_FAULTS"; says '^true$' 'chart.tip.getBoundingClientRect().right <= innerWidth'
quiet
finish
