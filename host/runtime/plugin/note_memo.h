/* plugin/note_memo.h - the facts of the files that this process has read, so that a session reads no plugin file that
 * an earlier session has read. Private to this folder.
 *
 * A file is identified by device, inode, size and times, like in verdict.h: one that was replaced or changed is read
 * again. The process remembers the last 64 files. Any thread may call these functions. */
#ifndef PLUGIN_NOTE_MEMO_H
#define PLUGIN_NOTE_MEMO_H
#include "plugin/note.h"
#include <sys/stat.h>

/* Copies the facts of the file with this identity. False: it was not read, or not successfully. */
bool note_recall(const struct stat *st, note_facts *out);
/* note_recall(), or note_read() of the file behind fd, which has this identity, with the same results. */
INLAY_NODISCARD inlay_status note_read_once(int fd, const struct stat *st, note_facts *out, inlay_diag *diag);
#endif
