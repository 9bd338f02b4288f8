/* serve/base/load_note.h - what the load in progress does, for the log: a load may compile for minutes, or wait for a
 * disk or a device. A process has one load at a time. Any thread. */
#ifndef SERVE_LOAD_NOTE_H
#define SERVE_LOAD_NOTE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A load begins at that time, by clock_ns(). */
void load_note_begin(const char *name, uint64_t version, uint64_t now_ns);
/* What it does from now on, as in "compiling"; fraction: of this step, 0: unknown. No effect without a load. */
void load_note_step(const char *what, double fraction);
void load_note_end(void);
/* Writes a line if the load has taken 20 seconds, and again after twice the time, each once. false: no line. */
bool load_note_line(uint64_t now_ns, char *out, size_t bytes);
#endif
