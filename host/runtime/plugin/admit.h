/* plugin/admit.h - decides whether a file may be loaded. Private to this folder.
 *
 *     trust      owner and mode of the file and of the folders above it; the list of permitted SHA-256 sums
 *     note       the ELF file and its note, compared with this host and CPU
 *     verdict    the result of the probe process, from now or from an earlier time
 *
 * No code of the file has run in this process when these checks have passed. No lock is held during them: reading files
 * and waiting for a probe may take long. An admission is used by one thread. */
#ifndef PLUGIN_ADMIT_H
#define PLUGIN_ADMIT_H
#include "plugin/note.h"
#include "plugin/plugin.h"
#include "plugin/shared_probe.h"
#include "plugin/trust.h"
#include "plugin/verdict.h"

struct admission {
    char path[PATH_MAX]; /* without links: the argument of dlopen() */
    int fd;              /* of the file; -1 = not open */
    struct stat st;
    note_facts facts;
    verdict_key key;          /* empty until admit_begin */
    struct verdict verdict;   /* from an earlier probe, or from this one once it has finished */
    shared_probe *probe;      /* whose verdict is awaited, or NULL */
    bool lost, for_one_model; /* see plugin_file */
    plugin_outcome outcome;   /* for a file that is refused */
    char fix[PATH_MAX + 128]; /* see plugin_file.fix; "" = none */
};

/* Does option isolate (NULL: none) name a provider of this list, which is separated by spaces, or all of them? */
bool admit_isolates(const char *isolate, const char *providers);
/* Checks who could have written the file, in directory dir. INLAY_OUT_OF_MEMORY, or another failure: refused. Always
 * follow with admission_close(). */
INLAY_NODISCARD inlay_status admit_open(const plugin_search *search, const char *path, const char *dir,
                                        struct admission *admission, inlay_diag *diag);
/* Checks the file's headers and note, for a file that this process has not loaded yet. Without a verdict, joins the
 * file's probe or starts one. */
INLAY_NODISCARD inlay_status admit_begin(const plugin_search *search, struct admission *admission, inlay_diag *diag);
/* Waits for the probe, if there is one, and applies the verdict. */
INLAY_NODISCARD inlay_status admit_finish(struct admission *admission, inlay_diag *diag);
/* Refuses the plugin with this key and verdict file if it crashed with the model, or with several; see
 * plugin/verdict.h. */
INLAY_NODISCARD inlay_status admit_crashes(const char *key_text, const char *file, uint64_t model,
                                           struct admission *admission, inlay_diag *diag);
void admission_close(struct admission *admission);
#endif
