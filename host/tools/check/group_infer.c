/* The shape inference of the plugin's own operators, in every shape: known, symbolic, and of unknown rank. */
#include "check/generate.h"
#include "check/loaded.h"
#include <string.h>

struct trial {
    struct check *c;
    const struct world *w;
    const char *subject;
    uint32_t accepted, refused;
    char silent[256]; /* a case that was refused without a word */
};

/* The host puts the status's own words where infer says nothing. */
static bool says_nothing(inlay_status status, const inlay_diag *diag)
{
    const char *words = inlay_status_text(status);
    size_t all = strlen(diag->text), own = strlen(words);

    return all < own || strcmp(diag->text + all - own, words) == 0;
}

static bool try_case(void *user, op_case *k)
{
    struct trial *t = user;
    char text[200];

    for (uint32_t known = CASE_SIZES; known <= CASE_RANK_UNKNOWN; known++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;
        case_one one;

        check_subject(t->c, "%s", case_text(k, text, sizeof text));
        check_phase(t->c, known == CASE_SIZES     ? "infer"
                          : known == CASE_SYMBOLS ? "infer with symbolic sizes"
                                                  : "infer with inputs of unknown rank");
        status = case_graph(k, &t->w->operators, known, &one, &diag);
        if (status == INLAY_OK) {
            t->accepted++;
            case_one_deinit(&one);
        } else {
            t->refused++;
            if (says_nothing(status, &diag))
                (void)snprintf(t->silent, sizeof t->silent, "%s", text);
        }
    }
    return true;
}

/* Attributes at their ends: what a file may hold. */
static bool try_attributes(void *user, op_case *k)
{
    static const int64_t numbers[] = { 0, -1, 1 << 20, INT64_MIN, INT64_MAX };
    struct trial *t = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    case_one one;

    /* The defaults are the schema's: a bound graph tells their names. */
    if (case_graph(k, &t->w->operators, CASE_SIZES, &one, &diag) != INLAY_OK)
        return true;
    for (uint32_t a = 0; a < one.model->main->nodes[0]->info.attr_count; a++) {
        inlay_attr_info attr = one.model->main->nodes[0]->info.attrs[a];
        uint32_t count = k->attr_count;

        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && attr.kind == INLAY_ATTR_INT; i++) {
            attr.i = numbers[i];
            if (case_attr(k, &attr))
                (void)try_case(t, k);
            k->attr_count = count;
        }
    }
    case_one_deinit(&one);
    return false;
}

static void try_operator(struct check *c, const struct world *w, const inlay_operator *op)
{
    const case_range range = { .seed = c->args->seed, .scale = 1, .quick = c->args->quick };
    char subject[160];
    struct trial t = { .c = c, .w = w, .subject = subject };

    (void)snprintf(subject, sizeof subject, "%.140s-%u", op->op_type, op->since_version);
    if (!check_unit(c, "%s", subject))
        return;
    generate_operator(op, try_case, &t, &range);
    generate_operator(op, try_attributes, &t, &range);
    if (t.silent[0] != '\0')
        check_warn(c, "infer", subject, "a sentence where a node is refused", "use inlay_fail(diag, ...)",
                   "infer refused %s without one", t.silent);
    if (t.accepted == 0)
        check_warn(c, "infer", subject, "that it accepts some usual shapes", "see what infer and the signature ask for",
                   "it refused all of %u", t.refused);
    else
        check_pass(c, "infer", subject, "%u shapes accepted, %u refused", t.accepted, t.refused);
}

void check_group_infer(struct check *c)
{
    struct world w;

    if (!world_open(c, "infer", false, &w))
        return;
    for (uint32_t i = 0; i < w.plugins[0].table.operator_count; i++)
        if (w.plugins[0].operators[i].signature != NULL && w.plugins[0].operators[i].op_type != NULL)
            try_operator(c, &w, &w.plugins[0].operators[i]);
    world_close(&w);
}
