/* oneDNN 3 has no Winograd convolutions on x86, so there are no such weights to pack. */
#include "cpu/region/build.h"

bool onednn_pack_winograd(const cpu_state *state, const memory_desc *plain, const void *source, const memory_desc *md,
                          void *target)
{
    (void)state;
    (void)plain;
    (void)source;
    (void)md;
    (void)target;
    return false;
}
