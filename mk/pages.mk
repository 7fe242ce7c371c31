# SPDX-License-Identifier: Apache-2.0
# pages.mk: pages that are generated, and the pages as a site.

# docs/support.md: what is done with each function of CUDA, and which test names it. The table of docs/limits.md.
docs: all
	@CUDA_HOME=$(CUDA_HOME) docs/support.py --build $(B)
	@docs/limits.py --build $(B)

# The pages as a site, in $(B)/site: docs/mkdocs.yml has their order. They are laid out as they are here, so that their links hold.
site_tree := $(B)/site-tree
site: packages := mkdocs mkdocs-material
site: installed
	@rm -rf $(site_tree) && mkdir -p $(site_tree)/pages && cp docs/mkdocs.yml docs/site.py $(site_tree)
	@tar -c --exclude='*.py' --exclude=mkdocs.yml --exclude=screen --exclude=record --exclude=pictures *.md LICENSE guest-uio/LICENSE docs | tar -x -C $(site_tree)/pages
	@sed -i '/^\[.*\]: \.\.\/\.\.\//d' $(site_tree)/pages/CHANGELOG.md  # links into the forge
	@mkdocs build --strict --clean --config-file $(site_tree)/mkdocs.yml --site-dir $(abspath $(B)/site) > $(site_tree)/log 2>&1 || \
	    { cat $(site_tree)/log; exit 1; }
	@echo $(B)/site/index.html
