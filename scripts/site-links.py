#!/usr/bin/env python3
"""Links of the site. `rewrite DIR`: adapts the links of pages from elsewhere in the repository to the site;
links to files that are not pages lead to the repository. `check DIR`: checks that every link, picture
and anchor within the site exists."""

import html.parser
import pathlib
import re
import sys
import urllib.parse

REPOSITORY = "https://github.com/anabranch/anabranch/blob/main/"
MOVED = {"README.md": "introduction.md", "ARCHITECTURE.md": "architecture.md",
         "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md",
         "SECURITY.md": "security.md"}


def rewrite(source):
    """Adapts the links of each page to the site."""
    top = {new: old for old, new in MOVED.items()}
    for page in source.rglob("*.md"):
        name = page.relative_to(source)
        here = pathlib.PurePosixPath("." if str(name) in top else f"docs/{name.parent}")
        depth = "../" * (len(name.parts) - 1)

        def link(match):
            text, target = match.groups()
            if re.match(r"[a-z]+:|#|/", target) or str(name) == "SUMMARY.md":
                return match.group(0)
            path, _, anchor = target.partition("#")
            parts = []
            for part in (here / path).parts:
                if part == ".." and parts:
                    parts.pop()
                elif part not in (".", ".."):
                    parts.append(part)
            full = "/".join(parts)
            anchor = f"#{anchor}" if anchor else ""
            if full in MOVED:
                return f"{text}({depth}{MOVED[full]}{anchor})"
            if full.startswith("docs/") and (source / full[5:]).is_file():
                return f"{text}({depth}{full[5:]}{anchor})"
            return f"{text}({REPOSITORY}{full}{anchor})"

        old = page.read_text(encoding="utf-8")
        # Do not change code.
        pieces = re.split(r"(^```.*?^```$)", old, flags=re.S | re.M)
        new = [piece if i % 2 else re.sub(r"(\])\(([^()\s]+)\)", link, piece)
               for i, piece in enumerate(pieces)]
        page.write_text("".join(new), encoding="utf-8")


class Page(html.parser.HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self):
        super().__init__()
        self.links, self.names = [], set()

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            if key in ("id", "name") and value:
                self.names.add(value)
            if (tag, key) in (("a", "href"), ("img", "src"), ("link", "href"), ("script", "src")):
                self.links.append(value or "")


def check(site):
    """Reports every broken link."""
    pages = {}

    def load(path):
        if path not in pages:
            pages[path] = Page()
            pages[path].feed(path.read_text(encoding="utf-8"))
        return pages[path]

    wrong, count = [], 0
    for path in sorted(site.rglob("*.html")):
        # rustdoc checks its own pages.
        if path.relative_to(site).parts[0] == "rust" or path.name == "toc.html":
            continue
        for target in load(path).links:
            url = urllib.parse.urlsplit(target)
            if url.scheme or url.netloc:
                continue
            count += 1
            to = path
            if url.path:
                base = site if url.path.startswith("/") else path.parent
                to = (base / urllib.parse.unquote(url.path).lstrip("/")).resolve()
                to = to / "index.html" if to.is_dir() else to
            name = urllib.parse.unquote(url.fragment)
            if not to.is_file():
                wrong.append(f"{path.relative_to(site)}: {target}")
            elif name and to.suffix == ".html" and name not in load(to).names:
                wrong.append(f"{path.relative_to(site)}: {target}: no such place")
    for line in wrong:
        print(line)
    if wrong:
        sys.exit(f"{len(wrong)} of {count} links lead nowhere")
    if len(pages) < 30:
        sys.exit(f"only {len(pages)} pages")
    print(f"{len(pages)} pages, {count} links within the site")


def main():
    tasks = {"rewrite": rewrite, "check": check}
    if len(sys.argv) != 3 or sys.argv[1] not in tasks:
        sys.exit("site-links.py rewrite|check DIR")
    directory = pathlib.Path(sys.argv[2]).resolve()
    if not directory.is_dir():
        sys.exit(f"site-links.py: {sys.argv[2]} is no directory")
    tasks[sys.argv[1]](directory)


if __name__ == "__main__":
    main()
