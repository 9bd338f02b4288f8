/* The table of packers, for kernels that define their own layouts of weights. */
#include "cpu/convolution/tiles.h"
#include "cpu/quantized/bytes.h"
#include "cpu/weights/packs.h"
#include "cpu/weights/sparse_weights.h"
#include "cpu/weights/terms_weights.h"

static bool pack_byte_tiles(const cpu_state *state, inlay_run *run, const tensor_layout *plain, const void *source,
                            const tensor_layout *layout, void *target)
{
    (void)state, (void)run;
    return bytes_pack_tiles(plain, source, layout, target);
}

static bool pack_byte_channels(const cpu_state *state, inlay_run *run, const tensor_layout *plain, const void *source,
                               const tensor_layout *layout, void *target)
{
    (void)state, (void)run;
    return bytes_pack_depthwise(plain, source, layout, target);
}

static bool sparse(const cpu_state *state, inlay_run *run, const tensor_layout *plain, const void *source,
                   const tensor_layout *layout, void *target)
{
    (void)state, (void)run;
    return sparse_pack_weights(plain, source, layout, target);
}

const cpu_packer cpu_packers[] = { pack_byte_tiles,    pack_byte_channels,     sparse,
                                   terms_pack_weights, tiles_winograd_weights, NULL };
