/* plan/program/declined.c - which offers were declined, and at which shapes. */
#include "plan/program/declined.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { SHAPES_KEPT = 256 };

/* ------------------------------------------------------------------ who is meant */

static bool has_node(const struct program *p, const part_offer *o, const char *name)
{
    for (uint32_t k = 0; k < o->node_count; k++)
        if (strcmp(p->graph->nodes[o->nodes[k]]->info.name.data, name) == 0)
            return true;
    return false;
}

void declined_mark(const struct program *p, uint32_t step, const inlay_diag *why, uint8_t *offers)
{
    const part_region *r = &p->parts.regions[step];
    bool found = false;

    for (uint32_t i = 0; why->node[0] != '\0' && i < r->offer_count; i++)
        if (has_node(p, &p->parts.offers[r->offers[i]], why->node))
            offers[r->offers[i]] = 1, found = true;
    for (uint32_t i = 0; !found && i < r->offer_count; i++)
        offers[r->offers[i]] = 1;
}

/* ------------------------------------------------------------------ what is remembered */

inlay_status declined_no_memory(const struct program *p, inlay_diag *diag)
{
    return no_memory(diag, "to assign graph '%s' again", p->graph->name);
}

static void free_shapes(declined_shapes *s)
{
    arena_deinit(&s->key.a);
    arena_deinit(&s->a);
    free(s);
}

inlay_status declined_remember(struct program *p, const plan_input *inputs, uint32_t count, const uint8_t *offers,
                               const char *text, inlay_diag *diag)
{
    declined_shapes *s = calloc(1, sizeof *s), **link = &p->fallback.shapes;
    uint32_t kept = 0;

    if (s == NULL)
        return declined_no_memory(p, diag);
    s->offers = arena_copy(&s->a, offers, (size_t)p->parts.offer_count);
    s->text = arena_string(&s->a, text);
    if (s->offers == NULL || s->text == NULL || !plan_set_key(&s->key, inputs, count)) {
        free_shapes(s);
        return declined_no_memory(p, diag);
    }
    s->next = p->fallback.shapes;
    __atomic_store_n(&p->fallback.shapes, s, __ATOMIC_RELEASE);
    for (; *link != NULL; link = &(*link)->next, kept++) {
        if (kept < SHAPES_KEPT)
            continue;
        free_shapes(*link); /* the oldest: should it come again, specialize is asked again */
        *link = NULL;
        break;
    }
    return INLAY_OK;
}

/* "[2,3] [7]", cut to fit. */
static void name_shapes(const struct plan *key, char *text, size_t bytes)
{
    const int64_t *k = key->key, *end = k + key->key_count;
    size_t used = 0;

    text[0] = '\0';
    while (k < end && used < bytes) {
        uint32_t rank = (uint32_t)*k;

        k += 2;
        used += (size_t)snprintf(text + used, bytes - used, "%s[", used > 0 ? " " : "");
        for (uint32_t d = 0; rank != INLAY_RANK_UNKNOWN && d < rank && used < bytes; d++)
            used += (size_t)snprintf(text + used, bytes - used, "%s%lld", d > 0 ? "," : "", (long long)*k++);
        if (used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, rank == INLAY_RANK_UNKNOWN ? "...]" : "]");
    }
}

uint32_t declined_list(struct program *p, uint32_t most, void (*say)(void *ctx, const char *shapes, const char *text),
                       void *ctx)
{
    uint32_t count = 0;

    (void)pthread_mutex_lock(&p->kept.lock);
    for (const declined_shapes *s = p->fallback.shapes; s != NULL; s = s->next, count++) {
        char shapes[160];

        if (count >= most)
            continue;
        name_shapes(&s->key, shapes, sizeof shapes);
        say(ctx, shapes, s->text);
    }
    (void)pthread_mutex_unlock(&p->kept.lock);
    return count;
}

void declined_forget(struct program *p)
{
    while (p->fallback.shapes != NULL) {
        declined_shapes *next = p->fallback.shapes->next;

        free_shapes(p->fallback.shapes);
        p->fallback.shapes = next;
    }
}
