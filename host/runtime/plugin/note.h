/* plugin/note.h - what a plugin's file says before any of its code has run. Private to this folder.
 *
 * Everything is read with libelf from an open descriptor, and every offset and size of the file is checked against the
 * file's length first: a truncated or bent file is refused here, with a sentence, and never reaches the dynamic linker.
 */
#ifndef PLUGIN_NOTE_H
#define PLUGIN_NOTE_H
#include "inlay/plugin.h"
#include <stdbool.h>

enum { NOTE_TEXT_BYTES = 2048, NOTE_ID_BYTES = 72 };

typedef struct note_facts {
    bool is_elf;
    bool present;          /* there is a note; otherwise the next two are empty */
    inlay_note note;       /* as this host knows it: what the file lacks is zero */
    const char *name;      /* of the plugin; these three point into text, and are "" where the note gives none */
    const char *providers; /* separated by spaces */
    const char *domains;
    uint32_t sanitizers;          /* INLAY_SANITIZER_*: by the note, and by the runtimes that the file asks for */
    char build_id[NOTE_ID_BYTES]; /* the linker's, in hex; "" = none */
    char text[NOTE_TEXT_BYTES];
} note_facts;

/* Reads the file behind fd, whose length is file_bytes. INLAY_INVALID_ARGUMENT: not a shared object that this machine
 * could load, or malformed; diag says what. INLAY_OUT_OF_MEMORY. On failure *out still holds what had been read. */
INLAY_NODISCARD inlay_status note_read(int fd, uint64_t file_bytes, note_facts *out, inlay_diag *diag);

/* Would this host, on this CPU, get along with it? INLAY_UNSUPPORTED: no, and why. */
INLAY_NODISCARD inlay_status note_fits_host(const note_facts *facts, inlay_diag *diag);

/* Is what the note says what inlay_plugin_open said? table, providers and operators are as this host knows them.
 * INLAY_INVALID_ARGUMENT: diag quotes both. */
INLAY_NODISCARD inlay_status note_agrees(const note_facts *facts, const inlay_plugin *table,
                                         const char *(*provider_name)(const void *ctx, uint32_t i), const void *ctx,
                                         const inlay_operator *operators, inlay_diag *diag);

/* Is word in a list of words that are separated by spaces? */
bool note_lists(const char *list, const char *word);
#endif
