/* oneDNN 3 has no Winograd's convolutions on x86, hence no weights of them. */
#include "region/build.h"

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
