# SPDX-License-Identifier: Apache-2.0
"""What mkdocs calls (docs/mkdocs.yml). In the navigation a folder stands for its pages. A link that is called as its file gets the page's title.
The first page, README.md, gets buttons that lead to the pages of each reader."""
import os
import re
from pathlib import Path

# Behind README's first paragraph: what a reader may want, and the page.
BUTTONS = {"Install": "docs/install.md", "VMs": "docs/using-your-own-vm.md", "Containers": "docs/containers.md", "CUDA in a guest": "docs/cuda-users.md",
           "Recipes": "docs/recipes.md", "Figures": "docs/performance.md", "Something is wrong": "docs/troubleshooting.md"}


def on_config(config):
    def pages(entries):
        for entry in entries:
            for title, target in entry.items():
                if isinstance(target, list):
                    pages(target)
                elif (folder := Path(config["docs_dir"], target)).is_dir():
                    entry[title] = [f"{target}/{page.name}" for page in sorted(folder.glob("*.md"), key=lambda page: (page.name != "README.md", page.name))]

    pages(config["nav"])
    return config


def with_buttons(markdown, page, files):
    title, first, rest = markdown.split("\n\n", 2)
    links = [f'<a class="md-button{" md-button--primary" if name == "Install" else ""}" href="{files.get_file_from_path(path).url_relative_to(page.file)}">'
             f"{name}</a>" for name, path in BUTTONS.items()]
    return "\n\n".join([title, first, f'<p class="start">{"".join(links)}</p>', rest])


def on_page_markdown(markdown, page, config, files):
    here = Path(page.file.src_path).parent
    if page.file.src_path == "README.md":
        markdown = with_buttons(markdown, page, files)

    def titled(match):
        text, target = match.groups()
        if Path(text).name != Path(target.split("#")[0]).name:
            return match[0]
        file = files.get_file_from_path(os.path.normpath(here / target.split("#")[0]))
        title = file and re.search(r"^# (.+)", Path(file.abs_src_path).read_text(), re.M)
        return f"[{title[1]}]({target})" if title else match[0]

    return re.sub(r"\[([\w./-]+\.md)\]\(([^)]+\.md(?:#[\w-]+)?)\)", titled, markdown)
