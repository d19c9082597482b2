# browser.sh - pages in headless Chromium: `source` it after common.sh. A test that needs it begins with `browser_start`, which ends
# the test with 77 (skipped) where there is no Chromium. The browser resolves no host name, so a page that asks for one shows it.
#   visit FILE WIDTH light|dark   loads the page in a window of WIDTH x 900
#   js EXPRESSION                 evaluates it in the page: $value is the result as text
#   says PATTERN EXPRESSION       its text matches the extended regular expression
#   key NAME                      presses Tab, Enter, Escape, ArrowRight, ... or types a letter
#   hover SELECTOR, click SELECTOR  the pointer, in the middle of the first element that CSS finds
#   picture FILE                  writes what the window shows as PNG
#   quiet                         since `visit` the page has logged nothing, thrown nothing, and asked for nothing outside itself
#   fine FILE                     what every page must pass, at 400 and 1280 pixels, light and dark; see the function
#   whole FILE                    what every page must have without scripts, for a screen reader, and on paper; see the function
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
calls=0 session='' events='' without_scripts=''

browser_start() {
    [ -n "$browser" ] || { echo "skipped: $me: no Chromium here (Debian: chromium)"; exit 77; }
    mkfifo to_browser from_browser
    exec 7<>to_browser 8<>from_browser
    HOME=$work "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --user-data-dir="$work/chromium" \
        --host-resolver-rules='MAP * ~NOTFOUND' --remote-debugging-pipe about:blank 3<to_browser 4>from_browser >browser.log 2>&1 7>&- 8>&- &
    chromium=$!
    trap 'kill $chromium 2>/dev/null; wait $chromium 2>/dev/null; cd /; rm -rf "$work"' EXIT
    call Target.createTarget '{"url":"about:blank"}'
    local target=${answer##*'"targetId":"'}
    call Target.attachToTarget "{\"targetId\":\"${target%%\"*}\",\"flatten\":true}"
    session=${answer##*'"sessionId":"'} session=${session%%\"*}
    for domain in Page Runtime Log Network; do call $domain.enable '{}'; done
}
# call METHOD PARAMS: one command of the DevTools protocol. $answer: its answer; what the page did meanwhile is added to $events
call() {
    local id=$((++calls)) line
    printf '{"id":%d,"method":"%s","params":%s%s}\0' $id "$1" "$2" "${session:+,\"sessionId\":\"$session\"}" >&7
    while IFS= read -r -d '' -t 60 -u 8 line; do
        case $line in
            "{\"id\":$id,"*) answer=$line; return ;;
            *'"method":"Runtime.exceptionThrown"'* | *'"method":"Runtime.consoleAPICalled"'* | *'"method":"Log.entryAdded"'*) events+="$line"$'\n' ;;
            *'"method":"Network.requestWillBeSent"'*) case $line in *'"url":"file:'* | *'"url":"data:'* | *'"url":"blob:'*) ;; *) events+="$line"$'\n' ;; esac ;;
            *'"method":"Page.loadEventFired"'*) loaded=1 ;;
        esac
    done
    echo "$me: the browser does not answer $1"; tail -n 20 browser.log; exit 1
}
json_text() { local t=${1//\\/\\\\}; t=${t//\"/\\\"}; t=${t//$'\n'/\\n}; printf '"%s"' "${t//$'\t'/\\t}"; }
visit() {
    what="page $1 at $2 pixels, $3"
    [ -s "$1" ] || { bad "$what: there is no such file"; return; }
    call Emulation.setDeviceMetricsOverride "{\"width\":$2,\"height\":900,\"deviceScaleFactor\":1,\"mobile\":false}"
    call Emulation.setEmulatedMedia "{\"features\":[{\"name\":\"prefers-color-scheme\",\"value\":\"$3\"}]}"
    call Page.navigate '{"url":"about:blank"}'
    events='' loaded=''
    call Page.navigate "{\"url\":$(json_text "file://$(realpath "$1")")}"
    local end=$((SECONDS + 60))
    until js 'location.protocol == "file:" && document.readyState == "complete"'; [ "$value" = true ]; do
        [ $SECONDS -lt $end ] || { bad "$what: does not load"; return; }
        sleep 0.03
    done
    [ -n "$without_scripts" ] || js 'new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))'
}
js() {
    call Runtime.evaluate "{\"expression\":$(json_text "Promise.resolve(($1)).then(String)"),\"awaitPromise\":true,\"userGesture\":true}"
    case $answer in
        *'"exceptionDetails"'*) bad "$what: $1: ${answer:0:600}"; value='' ;;
        *) value=${answer#*'"value":"'}; value=${value%'"}}'*}; value=$(printf '%b' "${value//\\\"/\"}") ;;
    esac
}
says() { js "$2"; grep -qE -- "$1" <<<"$value" || bad "$what: ${2:0:60} is '${value:0:300}', not '$1'"; }
key() {
    local code=$1 text=''
    case $1 in Tab) number=9 ;; Enter) number=13 text=',"text":"\r"' ;; Escape) number=27 ;; ArrowLeft) number=37 ;; ArrowUp) number=38 ;;
        ArrowRight) number=39 ;; ArrowDown) number=40 ;; Home) number=36 ;; End) number=35 ;; *) number=0 text=",\"text\":$(json_text "$1")" ;; esac
    call Input.dispatchKeyEvent "{\"type\":\"keyDown\",\"key\":$(json_text "$1"),\"code\":$(json_text "$code"),\"windowsVirtualKeyCode\":$number$text}"
    call Input.dispatchKeyEvent "{\"type\":\"keyUp\",\"key\":$(json_text "$1"),\"code\":$(json_text "$code"),\"windowsVirtualKeyCode\":$number}"
}
pointer() {
    js "(e => { if (!e) return 'none'; e.scrollIntoView({block:'center'}); const b = e.getBoundingClientRect(); return (b.left + b.width / 2) + ',\"y\":' + (b.top + b.height / 2) })(document.querySelector($(json_text "$1")))"
    [ "$value" != none ] || { bad "$what: no element $1"; return 1; }
    local at=$value
    call Input.dispatchMouseEvent "{\"type\":\"mouseMoved\",\"x\":$at}"
    [ "${2-}" != press ] || for type in mousePressed mouseReleased; do
        call Input.dispatchMouseEvent "{\"type\":\"$type\",\"x\":$at,\"button\":\"left\",\"clickCount\":1}"
    done
}
hover() { pointer "$1"; }
click() { pointer "$1" press; }
picture() {
    call Page.captureScreenshot '{"format":"png"}'
    local data=${answer#*'"data":"'}
    printf '%s' "${data%%\"*}" | base64 -d >"$1"
}
quiet() { [ -z "$events" ] || bad "$what: the page says or asks for: ${events:0:1500}"; }

# fine FILE: no script error, no request, no address of elsewhere in src or href, valid language and title; the body is as wide as
# the window; every text is at least 10 pixels high and has a contrast of 3:1, running text 4.5:1, with what is behind it
readonly PAGE_FAULTS='(function faults() {
  const out = [], root = document.scrollingElement;
  if (root.scrollWidth > innerWidth) out.push(`the page is ${root.scrollWidth} pixels wide in a window of ${innerWidth}`);
  if (!document.documentElement.lang || !document.title || document.compatMode != "CSS1Compat") out.push("no doctype, language or title");
  document.querySelectorAll("[src],[href],[action]").forEach(e => { for (const a of ["src", "href", "action"]) {
    const v = e.getAttribute(a); if (v && /^(\w+:)?\/\//.test(v)) out.push(`${e.tagName} ${a}=${v} leads outside`) } });
  const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length > 3 ? m : [...m, 1] };
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => (v /= 255) > 0.04045 ? ((v + 0.055) / 1.055) ** 2.4 : v / 12.92);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] == 1) return c } return [255, 255, 255] };
  const seen = new Set(), texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let t; (t = texts.nextNode());) { const e = t.parentElement;
    if (!t.data.trim() || seen.has(e) || /^(SCRIPT|STYLE|OPTION)$/.test(e.tagName) || !e.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
    seen.add(e); const s = getComputedStyle(e), box = e.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    const svg = e.ownerSVGElement, high = svg ? box.height : parseFloat(s.fontSize);
    if (high < 10) out.push(`text of ${high} pixels: ${t.data.trim().slice(0, 40)}`);
    if (svg && e.dataset.on) continue; /* a text on a coloured bar says so */
    const a = light(parse(svg ? s.fill : s.color)), b = light(behind(e)), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < (svg ? 3 : 4.5)) out.push(`contrast ${ratio.toFixed(1)}: ${t.data.trim().slice(0, 40)}`) }
  return out.slice(0, 8).join("; ") || "fine" })()'
fine() {
    local width scheme
    for width in 400 1280; do
        for scheme in light dark; do
            visit "$1" $width $scheme
            says '^fine$' "$PAGE_FAULTS"
            quiet
        done
    done
}

# whole FILE: with scripts off the page has every word that C wrote, and says what needs scripts; scripts take no word away. In the
# accessibility tree each figure has a name and a table. On paper the page is light, without tools, and as wide as the paper.
readonly WORDS='[...document.querySelectorAll("main h1,main h2,main p,main th,main td,main b,main pre")].filter(e => !e.closest("noscript,.plot")).map(e => e.textContent)'
readonly PAPER_FAULTS='(function faults() {
  const out = [], root = document.scrollingElement, light = c => c.match(/\d+/g).slice(0, 3).every(v => +v > 200);
  if (root.scrollWidth > innerWidth) out.push(`the page is ${root.scrollWidth} pixels wide on paper of ${innerWidth}`);
  document.querySelectorAll(".card,.chart,table").forEach(e => { if (!light(getComputedStyle(e).backgroundColor)) out.push(`${e.className} is dark`) });
  document.querySelectorAll(".tools,.controls,.tip,input").forEach(e => { if (e.checkVisibility()) out.push(`${e.tagName} ${e.className} is a tool`) });
  document.querySelectorAll(".plot>svg,canvas").forEach(e => { if (e.getBoundingClientRect().width < 0.9 * e.closest("figure").clientWidth - 30) out.push("a drawing is narrow") });
  return out.slice(0, 8).join("; ") || "fine" })()'
whole() {
    local n i object role
    call Emulation.setScriptExecutionDisabled '{"value":true}'
    without_scripts=1
    visit "$1" 1280 light
    says '^(0|[1-9].* needs? scripts?.*)$' '(n => n.length ? n.length + n[0].textContent : 0)(document.querySelectorAll("noscript"))'
    says '^true$' '[...document.querySelectorAll("figure.chart")].every(f => f.checkVisibility() && f.querySelector("noscript p").checkVisibility())'
    js "(sessionStorage.words = JSON.stringify($WORDS), 0)"
    call Emulation.setScriptExecutionDisabled '{"value":false}'
    without_scripts=''
    visit "$1" 1280 dark
    says '^$' "(now => JSON.parse(sessionStorage.words).filter(t => !now.has(t)).slice(0, 5))(new Set($WORDS))"
    js 'document.querySelectorAll("figure.chart").length'; n=$value
    for ((i = 0; i < n; i++)); do
        call Runtime.evaluate "{\"expression\":\"document.querySelectorAll('figure.chart')[$i]\"}"
        object=${answer#*'"objectId":"'}; object=${object%%\"*}
        for role in figure table; do
            call Accessibility.queryAXTree "{\"objectId\":\"$object\",\"role\":\"$role\"}"
            [[ $answer =~ \"name\":\{[^{}]*\"value\":\"[^\"] ]] || bad "$what: figure $i has no $role with a name: ${answer:0:300}"
        done
    done
    call Page.printToPDF '{}'
    [[ $answer == *'"data":"JVBERi'* ]] || bad "$what: cannot be printed: ${answer:0:300}"
    call Emulation.setDeviceMetricsOverride '{"width":720,"height":900,"deviceScaleFactor":1,"mobile":false}'
    call Emulation.setEmulatedMedia '{"media":"print","features":[{"name":"prefers-color-scheme","value":"dark"}]}'
    js '(dispatchEvent(new Event("beforeprint")), new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1)))))'
    says '^fine$' "$PAPER_FAULTS"
    call Emulation.setEmulatedMedia '{"media":""}'
    quiet
}
