/* plugin/admit.h - from a file that was found to one that may be loaded. Private to this folder.
 *
 *     trust      owner and mode of the file and of the folders that lead to it; the list of sums
 *     note       the ELF file and what it says of itself, against this host and CPU
 *     verdict    what a process of its own said when it tried the file: now, or at an earlier time
 *
 * Nothing of the file has run in this process when these are through. */
#ifndef PLUGIN_ADMIT_H
#define PLUGIN_ADMIT_H
#include "plugin/note.h"
#include "plugin/plugin.h"
#include "plugin/probe.h"
#include "plugin/trust.h"
#include "plugin/verdict.h"

struct admission {
    char path[PATH_MAX]; /* without links: what is handed to dlopen */
    int fd;              /* of the file, -1 = not open */
    struct stat st;
    note_facts facts;
    verdict_key key;          /* empty until admit_begin */
    struct verdict known;     /* of an earlier time */
    struct probe trial;       /* the one under way, if any */
    plugin_outcome outcome;   /* of a file that is not to be loaded */
    char fix[PATH_MAX + 128]; /* see plugin_file.fix; "" = none */
};

/* The rules that concern who may have written the file, in directory dir. INLAY_OUT_OF_MEMORY, or another failure:
 * refused. Always to be followed by admission_close(). */
INLAY_NODISCARD inlay_status admit_open(const plugin_search *search, const char *path, const char *dir,
                                        struct admission *admission, inlay_diag *diag);
/* What the file says, for one that this process has not loaded yet; if nobody has tried it, that is begun. */
INLAY_NODISCARD inlay_status admit_begin(const plugin_search *search, struct admission *admission, inlay_diag *diag);
/* The verdict, which admit_finish waits for. */
INLAY_NODISCARD inlay_status admit_finish(struct admission *admission, inlay_diag *diag);
void admission_close(struct admission *admission);
#endif
