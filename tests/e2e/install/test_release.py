# SPDX-License-Identifier: Apache-2.0
"""`make release`, in a copy of this tree that is a repository of its own, with packages that hold one file each: what it refuses, what becomes of
the changelog, and an apt repository that apt reads. The packages themselves are test_packages.py's."""
import hashlib
import re
import shutil

import pytest

from e2e.flat import TOP, need, not_sanitized, run, succeed, written

pytestmark = not_sanitized("a release is not made of a build under a sanitizer")
PACKAGES = {"barcuda-common": "amd64", "barcuda-guest": "all"}


class Tree:
    def __init__(self, folder):
        self.folder = folder / "tree"
        self.folder.mkdir()
        self.environment = {"GNUPGHOME": folder / "gnupg", "GIT_CONFIG_GLOBAL": written(folder / "gitconfig", "[user]\nname = A maintainer\nemail = m@example.org\n"),
                            "MAKEFLAGS": None, "KEY": None, "UNSIGNED": None, "SUITE": None}
        (folder / "gnupg").mkdir(mode=0o700)
        succeed("sh", "-c", f"git -C {TOP} ls-files -z --cached --others --exclude-standard | tar -C {TOP} -c --null -T - | tar -x -C {self.folder}")
        written(self.folder / "VERSION", "9.8.7\n")
        self.git("init", "-q", "-b", "main")
        self.commit()
        self.built = folder / "built"
        self.built.mkdir()
        for name, architecture in PACKAGES.items():
            root = folder / name
            (root / "DEBIAN").mkdir(parents=True)
            written(root / "DEBIAN/control", f"Package: {name}\nVersion: 9.8.7\nArchitecture: {architecture}\nMaintainer: m <m@example.org>\n"
                                             f"Description: a package\n")
            succeed("dpkg-deb", "--root-owner-group", "-b", root, self.built / f"{name}_9.8.7_{architecture}.deb")

    def git(self, *words):
        return succeed("git", *words, cwd=self.folder, env=self.environment)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a change")

    def release(self, *words):
        return run("make", "release", f"BUILT={self.built}", *words, cwd=self.folder, env=self.environment, patience=300)

    def file(self, name):
        return self.folder / "build/release" / name

    def apt(self, *words, trusted=False):
        """apt-get, which knows only the repository, and no package that is installed."""
        own = self.folder.parent / "apt"
        shutil.rmtree(own, ignore_errors=True)
        for name in "state/lists/partial", "cache/archives/partial":
            (own / name).mkdir(parents=True)
        for_it = "trusted=yes" if trusted else f"signed-by={self.file('apt/barcuda.gpg')}"
        sources = written(own / "sources.list", f"deb [{for_it}] file:{self.file('apt')} bookworm main\n")
        options = {"Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": "/dev/null", "Dir::State": own / "state", "Dir::Cache": own / "cache",
                   "Dir::State::status": written(own / "status", ""), "APT::Architecture": "amd64", "APT::Sandbox::User": "root",
                   "APT::Update::Error-Mode": "any"}
        command = ["apt-get", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
        updated = run(*command, "update")
        return run(*command, *words) if updated.status == 0 else updated


@pytest.fixture(scope="module")
def tree(shared):
    need("git", "gpg", "dpkg-deb", "apt-ftparchive", "apt-get", "make")
    if run("git", "-C", TOP, "rev-parse").status:
        pytest.skip("this tree is no git repository")
    one = Tree(shared)
    yield one
    run("gpgconf", "--kill", "all", env=one.environment)


@pytest.fixture(scope="module")
def signed(tree):
    succeed("gpg", "--batch", "--passphrase", "", "--quick-generate-key", "m@example.org", "ed25519", "sign", env=tree.environment)
    ran = tree.release("KEY=m@example.org", "SUITE=bookworm")
    assert ran.status == 0, ran
    return ran


def refused(ran, why):
    assert ran.status != 0 and re.search(why, ran.err), ran


def test_a_release_without_a_signature_is_refused(tree):
    refused(tree.release(), "KEY=.* names gpg's key .*; UNSIGNED=yes makes one that nothing signs")
    refused(tree.release("KEY=other@example.org"), "gpg has no such secret key")


def test_a_tree_with_changes_is_refused(tree):
    more = written(tree.folder / "more", "")
    refused(tree.release("UNSIGNED=yes"), "the tree has changes")
    more.unlink()


def test_a_version_that_is_the_tag_of_another_commit_is_refused(tree):
    tree.git("tag", "v9.8.7")
    refused(tree.release("UNSIGNED=yes"), "v9.8.7 is tagged, and CHANGELOG.md has unreleased changes: write the next version")
    tree.git("commit", "-q", "--allow-empty", "-m", "a later commit")
    refused(tree.release("UNSIGNED=yes"), "v9.8.7 is the tag of another commit: write the next version into VERSION")
    tree.git("tag", "-d", "v9.8.7")


def test_a_version_whose_changes_are_in_the_changelog_is_not_released_again(tree):
    before = (tree.folder / "VERSION").read_text()
    written(tree.folder / "VERSION", "0.1.0\n")
    tree.commit()
    refused(tree.release("UNSIGNED=yes"), "CHANGELOG.md has both 0.1.0 and unreleased changes")
    written(tree.folder / "VERSION", before)
    tree.commit()


def test_unreleased_changes_get_the_versions_heading_and_nothing_is_unreleased(tree, signed):
    changes = (TOP / "CHANGELOG.md").read_text()
    first = changes.partition("## [Unreleased]\n")[2].partition("\n## ")[0].strip()
    now = (tree.folder / "CHANGELOG.md").read_text()
    assert re.search(r"^## \[Unreleased\]\n\n## \[9\.8\.7\] - \d{4}-\d\d-\d\d\n\n" + re.escape(first), now, re.M), now[:1000]
    assert re.search(r"^\[Unreleased\]: \S+/compare/v9\.8\.7\.\.\.HEAD\n\[9\.8\.7\]: \S+/compare/v0\.1\.0\.\.\.v9\.8\.7$", now, re.M), now[-500:]
    assert tree.git("log", "-1", "--format=%s") == "Release 9.8.7\n"


def test_the_tarball_has_the_released_changelog(tree, signed):
    text = succeed("tar", "-xzOf", tree.file("9.8.7/barcuda-9.8.7.tar.gz"), "barcuda-9.8.7/CHANGELOG.md")
    assert text == (tree.folder / "CHANGELOG.md").read_text()
    debian = succeed("tar", "-xzOf", tree.file("9.8.7/barcuda-9.8.7.tar.gz"), "barcuda-9.8.7/debian/changelog")
    assert debian.startswith("barcuda (9.8.7) ") and "  * " in debian


def test_sums_are_of_each_file_and_signed(tree, signed):
    sums = dict(reversed(line.split("  ")) for line in tree.file("9.8.7/SHA256SUMS").read_text().splitlines())
    names = {file.name for file in tree.file("9.8.7").iterdir()} - {"SHA256SUMS", "SHA256SUMS.asc"}
    assert len(names) == 1 + len(PACKAGES) and sums == {name: hashlib.sha256(tree.file(f"9.8.7/{name}").read_bytes()).hexdigest() for name in names}
    succeed("gpg", "--verify", tree.file("9.8.7/SHA256SUMS.asc"), tree.file("9.8.7/SHA256SUMS"), env=tree.environment)


def test_the_tag_command_is_printed_and_no_tag_is_made(tree, signed):
    head = tree.git("rev-parse", "HEAD").strip()
    assert f"git tag -s -u m@example.org -m 'Barcuda 9.8.7' v9.8.7 {head}" in signed.out
    assert tree.git("tag") == ""


def test_apt_installs_from_the_signed_repository(tree, signed):
    ran = tree.apt("install", "-s", "-q", *PACKAGES)
    assert ran.status == 0, ran
    for name, architecture in PACKAGES.items():
        assert f"Inst {name} (9.8.7 Barcuda:bookworm [{architecture}])" in ran.out, ran


def test_apt_refuses_a_list_that_was_changed_after_the_signature(tree, signed):
    release = tree.file("apt/dists/bookworm/InRelease")
    before = release.read_text()
    release.write_text(before.replace("Origin: Barcuda", "Origin: another"))
    ran = tree.apt("install", "-s", "barcuda-common")
    release.write_text(before)
    assert ran.status != 0 and "Inst " not in ran.out, ran


def test_a_commit_that_has_its_tag_is_released_again_from_the_packages_where_they_were_made(tree, signed):
    """As on another release of Debian, which has fetched the tag."""
    tree.git("tag", "-a", "-m", "a release", "v9.8.7")
    ran = run("make", "release", "BUILT=build/packages", "UNSIGNED=yes", "SUITE=trixie", cwd=tree.folder, env=tree.environment, patience=300)
    tree.git("tag", "-d", "v9.8.7")
    assert ran.status == 0 and "git tag" not in ran.out and "git push origin HEAD v9.8.7" in ran.out, ran
    assert (tree.file("apt/dists/trixie/Release")).exists()


def test_a_second_run_makes_the_same_release_again_and_other_suites_stay(tree, signed):
    head = tree.git("rev-parse", "HEAD")
    ran = tree.release("UNSIGNED=yes", "SUITE=trixie")
    assert ran.status == 0 and "NOT SIGNED" in ran.out, ran
    assert tree.git("rev-parse", "HEAD") == head
    assert tree.apt("install", "-s", "barcuda-common").status == 0
    assert not tree.file("apt/dists/trixie/InRelease").exists()
