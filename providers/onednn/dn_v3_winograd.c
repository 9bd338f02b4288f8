/* oneDNN 3 has no Winograd's convolutions on x86, hence no weights of them. */
#include "region/build.h"

bool onednn_pack_winograd(const rg_state *state, const rg_md *plain, const void *source, const rg_md *md, void *target)
{
    (void)state;
    (void)plain;
    (void)source;
    (void)md;
    (void)target;
    return false;
}
