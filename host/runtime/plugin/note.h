/* plugin/note.h - reads the description in a plugin's ELF file before any of its code runs. Private to this folder.
 *
 * libelf reads from an open descriptor. Every offset and size in the file is checked against the file's length
 * first, so a truncated or malformed file is refused here with a message and never reaches the dynamic linker. */
#ifndef PLUGIN_NOTE_H
#define PLUGIN_NOTE_H
#include "inlay/note.h"
#include "inlay/types.h"
#include <stdbool.h>

enum { NOTE_TEXT_BYTES = 2048, NOTE_ID_BYTES = 72 };

typedef struct note_facts {
    bool is_elf;
    bool present;          /* the file has a note; otherwise note is zero and the four texts are "" */
    inlay_note note;       /* in this host's layout; fields that the file omits are zero */
    const char *name;      /* of the plugin; the four texts point into `text` and are "" where the note omits them */
    const char *providers; /* separated by spaces */
    const char *domains;
    const char *version;
    uint32_t sanitizers; /* INLAY_SANITIZER_*: from the note and from the runtime libraries that the file links */
    bool needs_musl;     /* the file links the C library musl */
    char openmp[32];     /* the OpenMP runtime that it links, other than the host's (libgomp); "" = none */
    uint64_t tls_bytes;  /* size of its thread-local storage */
    char build_id[NOTE_ID_BYTES]; /* the linker's, in hex; "" = none */
    char text[NOTE_TEXT_BYTES];
} note_facts;

/* Reads the file behind fd, of length file_bytes. INLAY_INVALID_ARGUMENT: malformed, or not a shared object for this
 * machine; diag has the reason. INLAY_OUT_OF_MEMORY. On failure *out still holds the fields read so far. */
INLAY_NODISCARD inlay_status note_read(int fd, uint64_t file_bytes, note_facts *out, inlay_diag *diag);

/* Checks that this host and CPU can load the plugin. INLAY_UNSUPPORTED: they cannot; diag has the reason. */
INLAY_NODISCARD inlay_status note_fits_host(const note_facts *facts, inlay_diag *diag);

struct inlay_operator;
struct inlay_plugin;
/* Checks that the note agrees with the description from inlay_plugin_open. table, providers and operators are in
 * this host's layout. INLAY_INVALID_ARGUMENT: diag quotes both values. */
INLAY_NODISCARD inlay_status note_agrees(const note_facts *facts, const struct inlay_plugin *table,
                                         const char *(*provider_name)(const void *ctx, uint32_t i), const void *ctx,
                                         const struct inlay_operator *operators, inlay_diag *diag);

/* Writes advice about a file that can be loaded but costs speed as it is built, one line, into text; returns false if
 * there is none. */
bool note_advice(const note_facts *facts, char *text, size_t bytes);

/* Fills diag for a file that dlopen() rejected with `message`: its text, and the remedy where it is known. */
inlay_status note_explain_rejection(const note_facts *facts, const char *message, inlay_diag *diag);
#endif
