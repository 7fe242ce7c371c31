# SPDX-License-Identifier: Apache-2.0
"""The pages as a site, in a browser without a window (Debian's chromium): no page is wider than a phone or a desktop, links can be read in light
and dark, and the first page leads to the pages of its readers."""
import html
import json
import os
import re

import pytest

from e2e.flat import TOP, need, run, succeed, written

PHONE, DESKTOP = 375, 1280
# A page in a frame of that width: how wide it is, its links' and its background's colours, its pictures that are missing.
MEASURES = """<body><script>
async function measured(url, width, scheme) {
    const frame = document.createElement('iframe');
    frame.style = `width: ${width}px; height: 700px`;
    frame.src = url;
    const loaded = new Promise(done => frame.onload = done);
    document.body.append(frame);
    await loaded;
    const page = frame.contentDocument;
    const still = page.createElement('style');  // else colours are those before, for a moment
    still.textContent = '* { transition: none !important }';
    page.head.append(still);
    page.body.setAttribute('data-md-color-scheme', scheme);
    await new Promise(done => setTimeout(done, 50));
    const link = page.querySelector('.md-content a[href]:not(.headerlink):not(.md-button)');
    const button = page.querySelector('.md-content .md-button:not(.md-button--primary)');
    const result = {url, width, scheme, wide: page.scrollingElement.scrollWidth, link: link ? getComputedStyle(link).color : null,
                    background: getComputedStyle(page.body).backgroundColor, button: button ? getComputedStyle(button).color : null,
                    inverted: [...page.images].filter(image => getComputedStyle(image).filter !== 'none').map(image => image.src),
                    broken: [...page.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src),
                    buttons: [...page.querySelectorAll('.md-content .md-button')].map(button => button.href)};
    frame.remove();
    return result;
}
(async () => {
    const all = [];
    for (const url of PAGES) for (const width of WIDTHS) for (const scheme of ['default', 'slate']) all.push(await measured(url, width, scheme));
    document.body.innerHTML = '<pre></pre>';
    document.querySelector('pre').textContent = JSON.stringify(all);
})();
</script></body>"""


@pytest.fixture(scope="module")
def site(shared):
    need("mkdocs", "chromium", "make")
    succeed("make", "-s", "site", f"B={shared / 'build'}", cwd=TOP, patience=300)
    return shared / "build/site"


@pytest.fixture(scope="module")
def pages(site, shared):
    """What was measured of each page: decisions look alike, so one of them is enough."""
    files = [page for page in sorted(site.rglob("index.html")) if not re.search("decisions/00(?!01)", str(page))]
    text = MEASURES.replace("PAGES", json.dumps([page.as_uri() for page in files])).replace("WIDTHS", json.dumps([PHONE, DESKTOP]))
    asks = written(shared / "measures.html", text)
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    ran = run("chromium", "--headless", *sandbox, "--disable-gpu", "--allow-file-access-from-files", "--disable-web-security", "--virtual-time-budget=120000",
              f"--user-data-dir={shared / 'chromium'}", f"--window-size={DESKTOP + 100},900", "--dump-dom", asks.as_uri(), patience=300)
    found = re.search("<pre>(.*?)</pre>", ran.out, re.S)
    if not found and ran.status:
        pytest.skip(f"chromium does not run here: {ran.err.strip().splitlines()[-1:]}")
    assert found, ran
    measured = json.loads(html.unescape(found[1]))
    assert len(measured) == 4 * len(files) > 100
    return measured


def luminance(colour):
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    """As WCAG 2 has it."""
    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_no_page_is_wider_than_the_screen(pages):
    assert [(page["url"], page["width"], page["wide"]) for page in pages if page["wide"] > page["width"]] == []


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_links_can_be_read(pages, scheme):
    links = [page for page in pages if page["scheme"] == scheme and page["link"]]
    assert len(links) > 50
    assert [(page["url"], page["link"], page["background"]) for page in links if contrast(page["link"], page["background"]) < 4.5] == []


@pytest.mark.parametrize("scheme", ["default", "slate"])
def test_buttons_can_be_read(pages, scheme):
    buttons = [page for page in pages if page["scheme"] == scheme and page["button"]]
    assert buttons and [page["button"] for page in buttons if contrast(page["button"], page["background"]) < 4.5] == []


def test_in_the_dark_charts_are_dark_and_so_is_the_recording(pages):
    """Charts are inverted there; the recording is a dark terminal as it is."""
    first = [page for page in pages if page["buttons"]]
    for page in first:
        names = {picture.rpartition("/")[2] for picture in page["inverted"]}
        assert names == ({"readme.svg", "how-it-works.svg"} if page["scheme"] == "slate" else set()), page
    assert len(first) == 4


def test_every_picture_is_there(pages):
    assert [picture for page in pages for picture in page["broken"]] == []


def test_the_first_page_leads_to_the_pages_of_its_readers(pages, site):
    first = next(page for page in pages if page["url"] == (site / "index.html").as_uri())
    targets = [button.removeprefix("file://") for button in first["buttons"]]
    assert len(targets) >= 5
    assert [target for target in targets if not os.path.exists(os.path.join(target, "index.html"))] == []
