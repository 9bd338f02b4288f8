/* graph_script.h - sessions of models that are a script (model_script.h), with random inputs. */
#ifndef GRAPH_SCRIPT_H
#define GRAPH_SCRIPT_H
#include "model_script.h"
#include "rig.h"
#include <math.h>

/* Opens a session of the script's model. */
static inline struct rig script_open(const char *const *options, int64_t opset, const char *script)
{
    struct wire wire = { 0 };

    script_model(&wire, opset, script);
    return rig_open(&wire, options);
}

/* Returns random floats for an input; dimensions of unknown size get `unknown`. A share (0 to 1) of the elements are
 * NaN, infinities, zeros of both signs, ones. */
static inline inlay_value *script_input(const struct rig *rig, uint32_t input, int64_t unknown, uint64_t *seed,
                                        float share)
{
    const float odd[] = { NAN, INFINITY, -INFINITY, 0, -0.0f, 1, -1 };
    inlay_io_info info = { .struct_size = sizeof info };
    int64_t dims[INLAY_MAX_RANK];
    inlay_value *value = NULL;
    float *data;
    int64_t count;

    (void)inlay_session_input(rig->session, input, &info);
    for (uint32_t d = 0; d < info.rank; d++)
        dims[d] = info.dims[d] < 0 ? unknown : info.dims[d];
    assert_int_equal(inlay_value_create(INLAY_FLOAT, info.rank, dims, &value, NULL), INLAY_OK);
    data = inlay_value_data(value);
    count = inlay_value_count(value);
    for (int64_t k = 0; k < count; k++) {
        float x = 3 * random_signed(seed);

        if (share > 0 && random_unit(seed) < share)
            x = odd[random_below(seed, 7)];
        data[k] = x;
    }
    return value;
}

/* Sets every input as script_input() does. */
static inline void script_feed_sized(struct rig *rig, int64_t unknown, uint64_t seed, float share)
{
    for (uint32_t i = 0; i < inlay_session_input_count(rig->session); i++)
        rig_bind(rig, i, script_input(rig, i, unknown, &seed, share));
}

static inline void script_feed_odd(struct rig *rig, uint64_t seed, float share)
{
    script_feed_sized(rig, 3, seed, share);
}

static inline void script_feed(struct rig *rig, uint64_t seed)
{
    script_feed_odd(rig, seed, 0);
}
#endif
