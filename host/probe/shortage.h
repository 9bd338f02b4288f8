/* probe/shortage.h - notices allocations that fail in the process of an isolated provider. */
#ifndef PROBE_SHORTAGE_H
#define PROBE_SHORTAGE_H
#include "remote/shared.h"

/* From now on writes the size of each allocation that fails, and the limit of the process, to the header. */
void shortage_note_in(isolate_header *header);
#endif
