#include "texts/grammar/token_order.h"

void token_order_link(token_order *order)
{
    for (uint32_t i = 0; i < order->count; i++) {
        ordered_token *one = &order->tokens[i];

        one->common = 0;
        while (i > 0 && one->common < one->bytes && one->common < one[-1].bytes &&
               one->text[one->common] == one[-1].text[one->common])
            one->common++;
    }
    for (uint32_t i = order->count; i > 0; i--) {
        uint32_t past = i;

        while (past < order->count && order->tokens[past].common >= order->tokens[i - 1].common)
            past = order->tokens[past].past;
        order->tokens[i - 1].past = past;
    }
}

/* path[0 .. known]: the states after 0, 1, 2 ... bytes of the last token that was followed. Where a token's beginning
 * is dead, all tokens with that beginning are passed over. */
void token_order_walk(const token_order *order, struct grammar *grammar, uint32_t *path, token_mask *mask)
{
    uint32_t known = 0;

    for (uint32_t i = 0; i < order->count;) {
        const ordered_token *one = &order->tokens[i++];
        uint32_t at = one->common < known ? one->common : known;

        while (at < one->bytes &&
               (path[at + 1] = grammar_next(grammar, path[at], (uint8_t)one->text[at])) != GRAMMAR_DEAD)
            at++;
        known = at;
        if (at == one->bytes)
            token_mask_set(mask, one->token);
        else
            while (i < order->count && order->tokens[i].common > at)
                i = order->tokens[i].past;
    }
}
