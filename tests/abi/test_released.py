#!/usr/bin/env python3
"""released.py accepts additions to the public headers, and rejects every other change.

    test_released.py SOURCE_DIR
"""
import shutil
import sys
import tempfile
from pathlib import Path

import released

LAYOUT, PLUGIN, API = "tests/abi/layout.def", "sdk/include/inlay/plugin.h", "sdk/include/inlay/inlay.h"
EXTENSIONS, TYPES = "sdk/include/inlay/extensions.h", "sdk/include/inlay/types.h"
# Name, file, text, its replacement; and the word that the message must contain, or None for a permitted change.
CHANGES = (
    ("no change", PLUGIN, "", "", None),
    ("a new constant", LAYOUT, "VALUE(INLAY_BUSY, 12)", "VALUE(INLAY_BUSY, 12)\nVALUE(INLAY_NEW, 99)", None),
    ("a constant changes", LAYOUT, "VALUE(INLAY_BUSY, 12)", "VALUE(INLAY_BUSY, 20)", "INLAY_BUSY"),
    ("a constant is removed", LAYOUT, "VALUE(INLAY_BUSY, 12)\n", "", "INLAY_BUSY"),
    ("a struct grows", LAYOUT, "STRUCT(inlay_map_request, 24)", "STRUCT(inlay_map_request, 32)", None),
    ("a struct shrinks", LAYOUT, "STRUCT(inlay_map_request, 24)", "STRUCT(inlay_map_request, 16)", "inlay_map_request"),
    ("a fixed struct grows", LAYOUT, "STRUCT(inlay_fence, 16)", "STRUCT(inlay_fence, 24)", "inlay_fence"),
    ("a field moves", LAYOUT, "FIELD(inlay_map_request, access, 16, 4)", "FIELD(inlay_map_request, access, 20, 4)",
     "inlay_map_request.access"),
    ("a field changes its size", LAYOUT, "FIELD(inlay_map_request, access, 16, 4)",
     "FIELD(inlay_map_request, access, 16, 2)", "inlay_map_request.access"),
    ("a field is renamed", LAYOUT, "FIELD(inlay_map_request, access, ", "FIELD(inlay_map_request, uses, ",
     "inlay_map_request.access"),
    ("a reserved field gets a name", LAYOUT, "FIELD(inlay_map_request, reserved, ", "FIELD(inlay_map_request, more, ",
     None),
    ("a callback changes", PLUGIN, "void (*destroy)(void *state);", "void (*destroy)(void *state, int now);",
     "inlay_provider.destroy"),
    ("a result changes", PLUGIN, "void (*quiesce)(void *state);", "inlay_status (*quiesce)(void *state);",
     "inlay_provider.quiesce"),
    ("a function is removed", API, "INLAY_API const char *inlay_version(void);", "", "inlay_version"),
    ("a function changes", API, "INLAY_API const char *inlay_version(void);",
     "INLAY_API const char *inlay_version(int part);", "inlay_version"),
    ("a function is added", API, "INLAY_API const char *inlay_version(void);",
     "INLAY_API const char *inlay_version(void); INLAY_API int inlay_more(void);", None),
    ("an extension is renamed", EXTENSIONS, '"inlay.team/1"', '"inlay.team/2"', "INLAY_EXT_TEAM"),
    ("a comment changes", TYPES, "Text of known length in bytes.", "Text.", None),
)


def copy(source, target):
    (target / "tests/abi").mkdir(parents=True)
    shutil.copytree(source / "sdk/include/inlay", target / "sdk/include/inlay")
    shutil.copy(source / LAYOUT, target / LAYOUT)


def append(source, comment):
    """The faults of a field that is appended with this comment."""
    with tempfile.TemporaryDirectory() as folder:
        changed = Path(folder) / "tree"
        copy(source, changed)
        last = "FIELD(inlay_map_request, reserved, 20, 4)\n"
        for file, text, replacement in (
                (LAYOUT, last, last + "FIELD(inlay_map_request, more, 24, 8)\n"),
                (LAYOUT, "STRUCT(inlay_map_request, 24)", "STRUCT(inlay_map_request, 32)"),
                (PLUGIN, "\n} inlay_map_request;", f"\n    uint64_t more; {comment}\n}} inlay_map_request;")):
            before = (changed / file).read_text()
            assert text in before, text
            (changed / file).write_text(before.replace(text, replacement, 1))
        return released.compare(source, changed)[0]


def main():
    source, wrong = Path(sys.argv[1]), 0
    if append(source, "/* since 1.9 */") or not any("inlay_map_request.more" in fault for fault in append(source, "")):
        print("an appended field is judged wrongly")
        wrong += 1
    for name, file, text, replacement, word in CHANGES:
        with tempfile.TemporaryDirectory() as folder:
            changed = Path(folder) / "tree"
            copy(source, changed)
            before = (changed / file).read_text()
            if text not in before:
                sys.exit(f"{file} has no '{text}'")
            (changed / file).write_text(before.replace(text, replacement, 1) if text else before)
            faults, _ = released.compare(source, changed)
        if bool(faults) != (word is not None) or (word is not None and not any(word in fault for fault in faults)):
            print(f"{name}: {faults or 'accepted'}")
            wrong += 1
    print(f"{len(CHANGES)} changes, {wrong} judged wrongly")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
