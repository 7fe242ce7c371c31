# SPDX-License-Identifier: Apache-2.0
# install.mk: what is installed, and where.

# Everything that is installed, as FILE:PLACE. Libraries lie as in the build, in a folder of their own (base/cli/home.h). A file
# that is called NAME.in names things of this installation.
module_source := $(PREFIX)/src/barcuda-$(VERSION)
share := $(PREFIX)/share
into = $(foreach f,$(2),$(f):$(1)/$(notdir $(f)))
commands := $(notdir $(filter $(bin)/%,$(products)))
# A page for each command of barcuda's, for the programs, and for their file of options.
subcommands := $(filter-out help,$(subst _,-,$(shell sed -n 's/^    add_\([a-z_]*\),.*/\1/p' host-bridge/cli/main.cc)))
manual := $(addprefix $(B)/share/man/,barcuda.1 $(subcommands:%=barcuda-%.1) barcuda-bridge.8 barcuda-exporter.8 barcuda.conf.5)
placed_module := $(call into,$(module_source),$(filter-out %/dkms.conf.in %.rules,$(wildcard guest-uio/*)) shm-device/layout.h) \
    guest-uio/dkms.conf.in:$(module_source)/dkms.conf $(call into,$(PREFIX)/lib/udev/rules.d,guest-uio/70-barcuda.rules)
placed := $(placed_module) $(call into,$(PREFIX)/bin,$(filter $(bin)/%,$(products))) \
    $(foreach f,$(filter $(lib)/%,$(products)),$(f):$(LIBDIR)/barcuda/$(patsubst $(lib)/%,%,$(f))) \
    $(foreach u,barcuda-bridge@ barcuda-exporter barcuda-guest,system/$(u).service.in:$(PREFIX)/lib/systemd/system/$(u).service) \
    $(foreach kind,sysusers tmpfiles,$(foreach f,$(wildcard system/*.$(kind).conf),$(f):$(PREFIX)/lib/$(kind).d/$(notdir $(f:.$(kind).conf=.conf)))) \
    $(foreach c,$(commands),system/completion.bash:$(share)/bash-completion/completions/$(c)) \
    system/completion.zsh:$(share)/zsh/site-functions/_barcuda \
    $(foreach page,$(manual),$(page):$(share)/man/man$(lastword $(subst ., ,$(page)))/$(notdir $(page))) \
    $(B)/share/bridge.conf:$(share)/doc/barcuda/examples/bridge.conf

$(manual) &: $(commands:%=$(bin)/%) packaging/manual packaging/manual.ini VERSION
	@echo "  MAN  $(@D)"
	@packaging/manual $(bin) $(@D)
$(B)/share/bridge.conf: $(bin)/barcuda-bridge
	@mkdir -p $(@D)
	@$< --print-config > $@

# Shell: one entry of those lists as $$file and $$place.
entry = file=$${entry%%:*} place="$(DESTDIR)$${entry\#*:}"
place = @for entry in $(1); do $(entry); mkdir -p "$${place%/*}" && rm -f "$$place" && case $$file in \
    *.in) sed 's|@BINDIR@|$(PREFIX)/bin|; s|@VERSION@|$(VERSION)|' $$file > "$$place";; \
    *) cp -P $$file "$$place";; esac && case $$file in $(bin)/*) chmod 755 "$$place";; *) [ -L "$$place" ] || chmod 644 "$$place";; esac || exit 1; done

# The guest's module, for dkms: in a guest with PREFIX=/usr, where dkms looks. Needs no toolkit and no build.
install-module:
	$(call place,$(placed_module))
install: all $(filter $(B)/share/%,$(foreach entry,$(placed),$(firstword $(subst :, ,$(entry)))))
	@grep -q '"$(patsubst $(PREFIX)/%,%,$(LIBDIR))/barcuda"' base/cli/home.h || \
	    { echo "LIBDIR=$(LIBDIR): programs look for libraries where base/cli/home.h says, relative to PREFIX=$(PREFIX)"; exit 1; }
	$(call place,$(placed))
# What Windows guests have, and `barcuda run --windows` here: of `make windows`.
placed_windows := $(call into,$(LIBDIR)/barcuda/barcuda-windows,$(windows_installed) guest-windows/install.ps1)
install-windows: $(windows_installed)
	$(call place,$(placed_windows))
install-strip: install
	@for entry in $(placed); do $(entry); case $$file in $(bin)/* | $(lib)/*) \
	    [ -L "$$place" ] || ! head -c 4 "$$place" | grep -aq ELF || $(STRIP) --strip-unneeded "$$place" || exit 1;; esac; done
uninstall:
	@for entry in $(placed) $(placed_windows); do $(entry); rm -f "$$place"; done
	@for folder in $(LIBDIR)/barcuda $(module_source) $(share)/doc/barcuda; do \
	    [ ! -d "$(DESTDIR)$$folder" ] || find "$(DESTDIR)$$folder" -depth -type d -empty -delete; done
