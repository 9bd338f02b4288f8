/* Reads the options of numerics and kernel selection, for the plugin and for programs of `inlay bundle`. */
#include "cpu/choice/kernels.h"
#include "cpu/weights/nbits.h"
#include "inlay/plugin.h"

void cpu_read_options(cpu_state *state, const inlay_create_args *args)
{
    const char *precision = "f32", *activations = "auto";
    bool winograd = true;

    state->kernel = KERNEL_COUNT;
    for (uint32_t i = 0; i < args->option_count; i++) {
        const inlay_option_value *value = INLAY_AT(inlay_option_value, args->options, args->option_stride, i);

        if (strcmp(value->name, "winograd") == 0)
            winograd = value->i != 0;
        else if (strcmp(value->name, "pack_bytes") == 0) {
            state->pack_bytes = value->f;
            state->pack_bytes_set = value->is_set != 0;
        } else if (strcmp(value->name, "reproducible") == 0 && value->s != NULL)
            state->reproducible = strcmp(value->s, "0") != 0;
        else if (strcmp(value->name, "kernel") == 0 && value->s != NULL)
            state->kernel = kernel_find(value->s);
        else if (strcmp(value->name, "precision") == 0 && value->s != NULL)
            precision = value->s;
        else if (strcmp(value->name, "activations") == 0 && value->s != NULL)
            activations = value->s;
    }
    state->strict = strcmp(precision, "strict") == 0;
    state->fast = strcmp(precision, "fast") == 0;
    state->model_sets_limbs = !state->strict && strcmp(activations, "auto") == 0;
    state->limbs = state->strict || strcmp(activations, "exact") == 0 ? NBITS_EXACT
                   : strcmp(activations, "byte") == 0                 ? NBITS_BYTE
                   : !state->model_sets_limbs || state->fast          ? NBITS_FINE
                                                                      : NBITS_EXACT;
    state->winograd = winograd && !state->strict;
}
