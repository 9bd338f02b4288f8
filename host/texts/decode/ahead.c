#include "texts/decode/ahead.h"
#include "inlay/check.h"

enum {
    SMOOTHING = 8,    /* runs */
    RECENT = 64,      /* guesses */
    PASSES = 32,      /* after this number, guesses are read again, since times and texts change */
    FIRST_GUESSES = 2 /* that a text is assumed to have had, half of them right */
};

void ahead_add_run(ahead_cost *cost, uint32_t ahead, double ns)
{
    INLAY_CHECK(ahead <= MOST_AHEAD);
    /* The first run of a shape plans it. */
    cost->ns[ahead] = cost->runs[ahead] < 2 ? ns : cost->ns[ahead] + (ns - cost->ns[ahead]) / SMOOTHING;
    cost->runs[ahead]++;
}

void ahead_add_guesses(ahead_record *record, uint32_t ahead, uint32_t right)
{
    INLAY_CHECK(right <= ahead);
    /* Guesses after a wrong one are not counted: they continue another text. */
    record->read += right < ahead ? right + 1 : ahead;
    record->right += right;
    if (record->read > RECENT) {
        record->read /= 2;
        record->right /= 2;
    }
}

uint32_t ahead_best(const ahead_cost *cost, ahead_record *record, uint32_t found, double guess_ns)
{
    const double rate = (record->right + FIRST_GUESSES / 2.0) / (record->read + FIRST_GUESSES);
    double tokens = 1, chance = 1, best_rate = cost->runs[0] > 0 ? 1 / cost->ns[0] : 0;
    uint32_t best = 0;

    INLAY_CHECK(found <= MOST_AHEAD);
    for (uint32_t ahead = 1; ahead <= found; ahead++) {
        chance *= rate;
        tokens += chance;
        if (cost->runs[ahead] < 2) /* not known yet */
            return ahead;
        if (tokens / (cost->ns[ahead] + ahead * guess_ns) > best_rate) {
            best_rate = tokens / (cost->ns[ahead] + ahead * guess_ns);
            best = ahead;
        }
    }
    if (best == 0 && found > 0 && ++record->passed % PASSES == 0)
        return 1 + record->passed / PASSES % found;
    return best;
}
