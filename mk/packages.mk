# SPDX-License-Identifier: Apache-2.0
# packages.mk: packages of distributions, and the tarball of the source.

# debian/changelog is made of VERSION and CHANGELOG.md.
packages_folder := $(B)/packages
tree := $(packages_folder)/barcuda-$(VERSION)
date = $(shell git log -1 --format=%cD 2>/dev/null || date -R -r VERSION)
debian/changelog: VERSION CHANGELOG.md debian/control packaging/changelog
	@packaging/changelog $(VERSION) "$$(sed -n 's/^Maintainer: //p' debian/control)" "$(date)" > $@

# So are the recipes of other distributions.
recipes := $(patsubst packaging/%.in,$(packages_folder)/%,$(wildcard packaging/*.in))
$(recipes): $(packages_folder)/%: packaging/%.in VERSION
	@mkdir -p $(@D) && sed 's|@VERSION@|$(VERSION)|' $< > $@

# The tree without what is built, as a folder to build in, or as a tarball. Without git it is one already.
fresh_tree = rm -rf $(tree) && mkdir -p $(tree) && tar -c --exclude=./.git --exclude='./build*' . | tar -x -C $(tree)
dist: debian/changelog $(recipes)
	@git archive --format=tar.gz --prefix=barcuda-$(VERSION)/debian/ --add-file=debian/changelog --prefix=barcuda-$(VERSION)/ \
	    $(recipes:%=--add-file=%) -o $(packages_folder)/barcuda-$(VERSION).tar.gz HEAD && echo $(packages_folder)/barcuda-$(VERSION).tar.gz

# Of what has been built: debian/rules compiles only where there is no BUILD. There is a package for Windows guests where `make windows` was.
built_for_windows := $(if $(wildcard $(dlls)/barcuda.exe),$(windows_installed))
deb: packages := dpkg-dev debhelper dh-dkms
deb: installed all $(built_for_windows) debian/changelog
	@$(fresh_tree) && rm -f $(packages_folder)/*.deb
	@cd $(tree) && BUILD=$(abspath $(B)) DEB_BUILD_PROFILES=$(if $(built_for_windows),,pkg.barcuda.nowindows) \
	    dpkg-buildpackage -b -us -uc -d > ../log 2>&1 || { tail -n 40 ../log; exit 1; }
	@rm -r $(tree) && ls $(packages_folder)/*.deb

# RPMFLAGS=... are more words for rpmbuild.
rpm: all $(packages_folder)/barcuda.spec
	@$(fresh_tree) && rm -f $(packages_folder)/*.rpm
	@cd $(tree) && rpmbuild -bb --build-in-place --nodeps --define '_topdir $(abspath $(packages_folder))/rpmbuild' $(RPMFLAGS) \
	    --define '_rpmdir $(abspath $(packages_folder))' --define '_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm' \
	    --define 'built $(abspath $(B))' ../barcuda.spec > ../log 2>&1 || { tail -n 40 ../log; exit 1; }
	@rm -r $(tree) $(packages_folder)/rpmbuild && ls $(packages_folder)/*.rpm

# A release, in $(B)/release: KEY=... is gpg's key that signs it, UNSIGNED=yes makes one without. BUILT=FOLDER has .deb and .rpm files of this
# version, which are then not made again; it may be $(B)/packages, where `make deb` has put them.
release: packages := apt-utils dpkg-dev gpg
release: installed
	@packaging/release prepare
	@$(MAKE) --no-print-directory dist $(if $(BUILT),,deb $(if $(shell command -v rpmbuild),rpm))
	@$(if $(BUILT),[ $(BUILT) -ef $(packages_folder) ] || cp $(BUILT)/*.deb $(wildcard $(BUILT)/*.rpm) $(packages_folder))
	@PACKAGES=$(packages_folder) OUT=$(B)/release packaging/release collect
