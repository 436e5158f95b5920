# SPDX-License-Identifier: MIT
# Packages: `make install`, a wheel, a Debian package, and their common part: the files under a prefix.
#
# Packages have a separate build, whose files don't name the folder in which they were made; the wheel differs only in what it is linked with.
# SOURCE_DATE_EPOCH is the commit's: the same commit gives the same bytes.
PACKAGE_OUT := $(OUT)/package
PACKAGE_MAKE = umask 022; $(MAKE) --no-print-directory OUT=$(PACKAGE_OUT) OBJECTS=$(OUT)/package $(PACKAGE_CC) VENV=$(VENV) PACKAGE_VENV=$(PACKAGE_VENV) OPT="-O2 -g1 -ffile-prefix-map=$(CURDIR)=."
# One at a time: a wheel and a Debian package may be made side by side.
PACKAGE_BUILD = exec 9>$(OUT)/.packages && flock 9 && $(PACKAGE_MAKE) -j$(shell nproc) everything reference
PACKAGE_VENV ?= $(patsubst %/$(CROSS),%,$(OUT))/packaging
ifndef SOURCE_DATE_EPOCH
export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)
endif
# The version is stored in one place.
HEAPTAPE_VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' analysis/heaptape/common/version.py)

# Man pages and completions are made from the commands themselves.
REFERENCE := $(OUT)/share/.stamp
$(REFERENCE): $(wildcard packaging/reference/*.py analysis/heaptape/commands/*.py) analysis/heaptape/common/version.py $(VENV)/.stamp $(PACKAGE_VENV)/.stamp \
    $(addprefix $(OUT)/,bin/heaptape lib/replay.json $(addprefix libexec/heaptape-,record convert observe))
	rm -rf $(@D)
	HEAPTAPE_OUT=$(abspath $(OUT)) PYTHONPATH=analysis $(EMULATE) $(PACKAGE_VENV)/bin/python packaging/reference $(OUT)/bin/heaptape $(@D)
	@touch $@
reference: $(REFERENCE) ## man pages and completions of shells into out/share

# The site of the documents, with the same definition of each command. A broken link ends it.
docs: all $(PACKAGE_VENV)/.stamp $(VENV)/.stamp ## the documents as a site, out/site/html
	PYTHONPATH=analysis:packaging/reference $(PACKAGE_VENV)/bin/python packaging/site $(OUT)/bin/heaptape $(OUT)/site
	$(VENV)/bin/python -m tests.output_shapes $(OUT)/site/html/schemas
	@echo "$(OUT)/site/html/index.html (with its search: python3 -m http.server -d $(OUT)/site/html)"

# The files of every kind of package under its prefix; all users can read them, whatever the umask. They have no debugging information,
# which has the names of the build's folders. The symbols of Valgrind's preloaded library control Valgrind, and those of its tool are for
# its own messages.
INSTALLED = $(DESTDIR)$(PREFIX)
STRIP := $(if $(CROSS),$(CROSS)-linux-gnu-)strip
install-files: all $(REFERENCE)
	install -d $(addprefix $(INSTALLED)/,libexec/heaptape/workloads lib/heaptape include share/heaptape/tools)
	install -d $(addprefix $(INSTALLED)/share/heaptape/,allocators workloads/corpus)
	install -m 755 $(OUT)/libexec/heaptape-* $(INSTALLED)/libexec/heaptape/
	[ ! -d $(OUT)/libexec/valgrind ] || { cp -RP $(OUT)/libexec/valgrind $(INSTALLED)/libexec/heaptape/ && \
	  find $(INSTALLED)/libexec/heaptape/valgrind -type l -delete; } # links: what only tests use
	install -m 755 $(OUT)/workloads/* $(INSTALLED)/libexec/heaptape/workloads/
	install -m 755 $(HT_HOST_LIBS) $(HT_UNWIND_LIB) $(OUT)/lib/libheaptape-reader.so $(PLACE_LIB) $(MACHINE_LIBRARY) $(ALLOCATOR_LIBRARIES) $(INSTALLED)/lib/heaptape/
	$(STRIP) --strip-unneeded $(addprefix $(INSTALLED)/,lib/heaptape/*.so libexec/heaptape/heaptape-* libexec/heaptape/workloads/*)
	[ ! -d $(OUT)/libexec/valgrind ] || $(STRIP) --strip-debug $(addprefix $(INSTALLED)/libexec/heaptape/valgrind/,valgrind heaptape-*-linux)
	install -m 644 capture/wire/heaptape.h $(INSTALLED)/include/
	install -m 644 allocators/allocators.toml allocators/candidates.toml $(INSTALLED)/share/heaptape/allocators/
	install -m 644 $(OUT)/lib/replay.json $(INSTALLED)/share/heaptape/
	cp -R workloads/apps workloads/counted workloads/suites $(INSTALLED)/share/heaptape/workloads/
	install -m 644 workloads/corpus/*.tape workloads/corpus/*.zip $(INSTALLED)/share/heaptape/workloads/corpus/
	install -m 755 tools/setup $(INSTALLED)/share/heaptape/tools/
	cp -R $(OUT)/share/man $(OUT)/share/bash-completion $(OUT)/share/zsh $(OUT)/share/fish $(INSTALLED)/share/
	chmod -R a+rX $(addprefix $(INSTALLED)/,libexec/heaptape share/heaptape $(addprefix share/,man bash-completion zsh fish))

# Copies the command in Python to a folder, without Python's caches.
# $(call install_package,folder)
install_package = install -d $(1) && rm -rf $(1)/heaptape && cp -R analysis/heaptape $(1)/ && \
  find $(1)/heaptape \( -name __pycache__ -o -name test \) -prune -exec rm -r {} + && chmod -R a+rX $(1)/heaptape
# $(call install_launcher,folder of the environment)
install_launcher = install -d $(INSTALLED)/bin && sed 's|@VENV@|$(1)|; s|@CHECKOUT@||' analysis/launcher.in >$(INSTALLED)/bin/heaptape && \
  chmod 755 $(INSTALLED)/bin/heaptape

# The installed command has its own environment, so that it outlives the checkout: of a Python that all users can run, with the packages
# that commands need but not their tests, and with bytecode, which users could not write. Nothing in it names DESTDIR.
LIBRARY = $(INSTALLED)/lib/heaptape
INSTALLED_EXTRAS := events export tune fleet s3
install: install-files ## install under PREFIX (default /usr/local), for all users
	umask 022 && python=$$(packaging/public_python $(PYTHON)) && "$$python" -m venv --clear --without-pip $(LIBRARY)/venv
	$(VENV)/bin/python packaging/needed_requirements.py $(INSTALLED_EXTRAS) >$(OUT)/installed.lock
	umask 022 && $(VENV)/bin/pip --disable-pip-version-check --python $(LIBRARY)/venv/bin/python -q install --no-compile --require-hashes -r $(OUT)/installed.lock
	find $(LIBRARY)/venv \( -name tests -type d -o -path '*/bin/*' ! -name 'python*' \) -prune -exec rm -r {} +
	$(call install_package,$(LIBRARY))
	umask 022 && for site in $(LIBRARY)/venv/lib/python3*/site-packages; do echo ../../../.. >$$site/heaptape.pth; done
	umask 022 && $(LIBRARY)/venv/bin/python -m compileall -q $(if $(DESTDIR),-s $(DESTDIR) -p /) $(LIBRARY)/heaptape $(LIBRARY)/venv/lib >/dev/null
	$(if $(DESTDIR),sed -i 's|$(DESTDIR)||g' $(LIBRARY)/venv/pyvenv.cfg)
	$(call install_launcher,$(PREFIX)/lib/heaptape/venv)

# The tools that make packages, separate from those that heaptape itself needs.
$(PACKAGE_VENV)/.stamp: packaging/requirements.lock
	$(PYTHON) -m venv --clear $(PACKAGE_VENV)
	$(PACKAGE_VENV)/bin/pip --disable-pip-version-check -q install --require-hashes -r packaging/requirements.lock
	@touch $@

WHEEL_STAGE := $(OUT)/wheel/stage
WHEEL_PREFIX := $(WHEEL_STAGE)/analysis/heaptape/prefix
# Compiled with Debian 12's headers, linked with an older C library: the linker names what that one lacks.
WHEEL_MACHINE := $(or $(CROSS),x86_64)
WHEEL_ROOT := $(abspath $(OUT))/glibc-$(if $(CROSS),2.31,2.27)
WHEEL_LIBRARIES := $(WHEEL_ROOT)/root/usr/lib/$(WHEEL_MACHINE)-linux-gnu
wheel: PACKAGE_OUT := $(OUT)/package-wheel
WHEEL_LINK := -B$(WHEEL_LIBRARIES) -L$(WHEEL_LIBRARIES) -L$(WHEEL_ROOT)/root/lib/$(WHEEL_MACHINE)-linux-gnu -Wl,--sysroot=$(WHEEL_ROOT)/root
ifeq ($(CROSS),)
wheel: PACKAGE_CC := CC="$(CC) $(WHEEL_LINK)"
else
wheel: PACKAGE_CC := CROSS_LINK="-isysroot $(abspath $(CROSS_ROOT)) $(WHEEL_LINK)" EMULATE="tools/emulate $(CROSS) $(abspath $(OUT))"
endif
$(WHEEL_ROOT)/.complete: tools/cross-root
	tools/cross-root $(notdir $(@D)) $(@D)
wheel: setup-package $(PACKAGE_VENV)/.stamp $(WHEEL_ROOT)/.complete ## out/wheel/heaptape-*.whl: all of heaptape, for pip
	+@$(PACKAGE_BUILD)
	rm -rf $(OUT)/wheel && install -d $(WHEEL_STAGE)
	$(call install_package,$(WHEEL_STAGE)/analysis)
	+@$(PACKAGE_MAKE) install-files DESTDIR=$(abspath $(WHEEL_PREFIX)) PREFIX=
	PATH="$(abspath $(PACKAGE_VENV))/bin:$$PATH" WHEEL_MACHINE=$(WHEEL_MACHINE) packaging/wheel $(WHEEL_STAGE) $(OUT)/wheel $(abspath $(VENV)) $(WHEEL_ROOT)/root.packages $(WHEEL_LIBRARIES)
	@ls -l $(OUT)/wheel/*.whl

# Candidates, the newest versions, as `heaptape allocators install` makes them: built for the wheel's C library, with their symbols, and
# with the C++ library inside, hidden from programs.
WHEEL_ALLOCATORS := mimalloc jemalloc google-tcmalloc
ALLOCATORS_STAGE := $(OUT)/wheel-allocators/stage
NEWER_GLIBC := $(OBJECTS)/pic/packaging/newer_glibc.o
wheel-allocators: setup-package $(PACKAGE_VENV)/.stamp $(WHEEL_ROOT)/.complete $(NEWER_GLIBC) ## out/wheel-allocators/*.whl: pip's heaptape[allocators]
	+@$(BUILD) everything python-environment
	rm -rf $(OUT)/wheel-allocators
	CC="gcc $(WHEEL_LINK) -Wl,--strip-debug" CXX="g++ $(WHEEL_LINK) -Wl,--strip-debug -static-libstdc++ -Wl,--exclude-libs,libstdc++.a -Wl,$(abspath $(NEWER_GLIBC))" \
	  $(OUT)/bin/heaptape allocators install --into $(ALLOCATORS_STAGE)/heaptape_allocators $(WHEEL_ALLOCATORS)
	PATH="$(abspath $(PACKAGE_VENV))/bin:$$PATH" packaging/wheel_allocators $(ALLOCATORS_STAGE) $(OUT)/wheel-allocators $(HEAPTAPE_VERSION)
	@ls -l $(OUT)/wheel-allocators/*.whl

# msgspec is not in Debian, and its module is small: the package contains it, for heaptape only. The system's Python finds heaptape, and
# pytest its plugin, by what is in dist-packages.
DEB_TREE := $(OUT)/deb/heaptape
DEB_ROOT := $(DEB_TREE)/debian/heaptape
DIST_INFO = $(INSTALLED)/lib/python3/dist-packages/heaptape-$(HEAPTAPE_VERSION).dist-info
deb: setup-package $(PACKAGE_VENV)/.stamp ## out/deb/heaptape_*.deb: a Debian package, held to lintian
	+@$(PACKAGE_BUILD)
	rm -rf $(OUT)/deb && install -d $(DEB_TREE)
	umask 022 && cp -R packaging/debian $(DEB_TREE)/
	+@$(PACKAGE_MAKE) install-files DESTDIR=$(abspath $(DEB_ROOT)) PREFIX=/usr
	+@$(PACKAGE_MAKE) install-deb-python DESTDIR=$(abspath $(DEB_ROOT)) PREFIX=/usr
	PATH="$(abspath $(PACKAGE_VENV))/bin:$$PATH" packaging/deb $(DEB_TREE) $(HEAPTAPE_VERSION) $(abspath $(VENV))
	@ls -l $(OUT)/deb/*.deb
install-deb-python:
	$(call install_package,$(LIBRARY))
	cp analysis/heaptape/launch.py $(LIBRARY)/__main__.py
	cp -R $(VENV)/lib/python3*/site-packages/msgspec $(LIBRARY)/
	find $(LIBRARY)/msgspec -name __pycache__ -prune -exec rm -r {} +
	$(call install_launcher,/usr/lib/heaptape/venv)
	install -d $(DIST_INFO)
	ln -s ../../heaptape/heaptape $(dir $(DIST_INFO))heaptape
	printf '%s\n' 'Metadata-Version: 2.1' 'Name: heaptape' 'Version: $(HEAPTAPE_VERSION)' >$(DIST_INFO)/METADATA
	printf '%s\n' '[pytest11]' 'heaptape = heaptape.features.pytest_plugin.plugin' >$(DIST_INFO)/entry_points.txt

setup-package: setup-test
	@tools/setup @package

RUN_PACKAGE_TESTS = $(RUN_TESTS) -n $(TEST_JOBS) --dist worksteal tests/test_packages.py $(PYTEST) -m
package-programs: setup-test setup-package
	+@$(BUILD) programs
test-packages: package-programs ## make the wheel, the Debian package and an installation, and try them as other users
	$(RUN_PACKAGE_TESTS) "packages and not long"
test-packages-all: package-programs ## the same with other systems, more Pythons and the allocators' wheel
	$(RUN_PACKAGE_TESTS) packages

.PHONY: docs reference package-programs test-packages test-packages-all install-files install wheel wheel-allocators deb install-deb-python setup-package
