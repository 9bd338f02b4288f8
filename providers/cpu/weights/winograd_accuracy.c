/* Whether the measured error of Winograd's algorithm is small enough. */
#include "cpu/weights/winograd_accuracy.h"

uint64_t winograd_accuracy_bytes(int64_t in)
{
    return sizeof(winograd_accuracy) + (uint64_t)in * sizeof(float);
}

bool winograd_is_accurate(const cpu_state *state, const winograd_accuracy *accuracy)
{
    if (accuracy->verdict != TILE_MEASURED)
        return false;
    if (state->fast)
        return accuracy->error <= TILE_FAST_ERROR;
    return accuracy->error <= TILE_MOST_ERROR && accuracy->times_plain <= TILE_MOST_TIMES && accuracy->uneven > 0;
}

void winograd_explain_inaccuracy(const cpu_state *state, const winograd_accuracy *accuracy, char *text, size_t bytes)
{
    const double limit = state->fast ? TILE_FAST_ERROR : TILE_MOST_ERROR;

    if (accuracy->verdict == TILE_NO_NUMBERS)
        (void)snprintf(text, bytes, "weights are infinite or NaN");
    else if (accuracy->verdict == TILE_INTEGERS)
        (void)snprintf(text, bytes, "weights are integers, whose sums are exact");
    else if (accuracy->verdict == TILE_EXTREME)
        (void)snprintf(text, bytes, "weights are too large or too small for the transforms");
    else if (!(accuracy->error <= limit))
        (void)snprintf(text, bytes, "error %.1e with these weights, at most %.0e is allowed", accuracy->error, limit);
    else if (!(accuracy->times_plain <= TILE_MOST_TIMES))
        (void)snprintf(text, bytes, "error %.0f times a plain sum's with these weights, at most %.0f is allowed",
                       accuracy->times_plain, TILE_MOST_TIMES);
    else
        (void)snprintf(
            text, bytes,
            "some filters have few significant weights, and the transforms would round their results too much");
}
