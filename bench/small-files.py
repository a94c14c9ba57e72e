"""Work with small files in a directory: `prepare`, then `create`, `status` or `install`."""

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile

FILES = 5_000
PACKAGES = 60
FILES_OF_PACKAGE = 40
DIRECTORIES = 50
GIT = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0"]


def create(parent):
    for index in range(FILES):
        directory = os.path.join(parent, str(index % DIRECTORIES))
        os.makedirs(directory, exist_ok=True)
        with open(os.path.join(directory, f"{index}.txt"), "w") as file:
            file.write(f"{index}\n" * 20)


def pack(path, name):
    with tarfile.open(path, "w:gz") as archive:
        facts = json.dumps({"name": name, "version": "1.0.0"})
        contents = {"package/package.json": facts}
        for index in range(FILES_OF_PACKAGE):
            contents[f"package/lib/{index}.js"] = f"module.exports = {index};\n" * 10
        for member, text in contents.items():
            entry = tarfile.TarInfo(member)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))


def prepare(work):
    repository = os.path.join(work, "repository")
    create(repository)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*GIT, *words], cwd=repository, check=True)
    packages = os.path.join(work, "packages")
    os.makedirs(packages)
    wanted = {}
    for index in range(PACKAGES):
        name = f"part-{index}"
        pack(os.path.join(packages, f"{name}.tgz"), name)
        wanted[name] = f"file:../packages/{name}.tgz"
    application = os.path.join(work, "application")
    os.makedirs(application)
    with open(os.path.join(application, "package.json"), "w") as file:
        json.dump({"name": "application", "private": True, "dependencies": wanted}, file)


def install(work):
    application = os.path.join(work, "application")
    for left in ("node_modules", "package-lock.json"):
        path = os.path.join(application, left)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.remove(path)
    words = ["npm", "install", "--offline", "--no-audit", "--no-fund", "--loglevel=error"]
    environment = {**os.environ, "npm_config_cache": os.path.join(work, "cache")}
    subprocess.run(words, cwd=application, env=environment, check=True)


def main(action, work):
    if action == "prepare":
        prepare(work)
    elif action == "create":
        made = os.path.join(work, "made")
        shutil.rmtree(made, ignore_errors=True)
        create(made)
    elif action == "status":
        subprocess.run([*GIT, "status", "--porcelain"], cwd=os.path.join(work, "repository"), check=True)
    elif action == "install":
        install(work)


main(*sys.argv[1:])
