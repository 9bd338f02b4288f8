/* The shape inference of the plugin's own operators, in every shape: known, symbolic, and of unknown rank. */
#include "check/generate.h"
#include "check/loaded.h"
#include <string.h>

struct trial {
    struct check *check;
    const struct fixture *fixture;
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

static bool try_case(void *user, op_case *entry)
{
    struct trial *trial = user;
    char text[200];

    for (uint32_t known = CASE_SIZES; known <= CASE_RANK_UNKNOWN; known++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;
        case_instance built;

        check_subject(trial->check, "%s", case_text(entry, text, sizeof text));
        check_phase(trial->check, known == CASE_SIZES     ? "infer"
                                  : known == CASE_SYMBOLS ? "infer with symbolic sizes"
                                                          : "infer with inputs of unknown rank");
        status = case_graph(entry, &trial->fixture->operators, known, &built, &diag);
        if (status == INLAY_OK) {
            trial->accepted++;
            case_instance_deinit(&built);
        } else {
            trial->refused++;
            if (says_nothing(status, &diag))
                (void)snprintf(trial->silent, sizeof trial->silent, "%s", text);
        }
    }
    return true;
}

/* Attributes at their ends: what a file may hold. */
static bool try_attributes(void *user, op_case *entry)
{
    static const int64_t numbers[] = { 0, -1, 1 << 20, INT64_MIN, INT64_MAX };
    struct trial *trial = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    case_instance built;

    /* The defaults are the schema's: a bound graph tells their names. */
    if (case_graph(entry, &trial->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    for (uint32_t a = 0; a < built.model->main->nodes[0]->info.attr_count; a++) {
        inlay_attr_info attr = built.model->main->nodes[0]->info.attrs[a];
        uint32_t count = entry->attr_count;

        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && attr.kind == INLAY_ATTR_INT; i++) {
            attr.i = numbers[i];
            if (case_attr(entry, &attr))
                (void)try_case(trial, entry);
            entry->attr_count = count;
        }
    }
    case_instance_deinit(&built);
    return false;
}

static void try_operator(struct check *check, const struct fixture *fixture, const inlay_operator *op)
{
    const case_range range = { .seed = check->args->seed, .scale = 1, .quick = check->args->quick };
    char subject[160];
    struct trial trial = { .check = check, .fixture = fixture, .subject = subject };

    (void)snprintf(subject, sizeof subject, "%.140s-%u", op->op_type, op->since_version);
    if (!check_unit(check, "%s", subject))
        return;
    generate_operator(op, try_case, &trial, &range);
    generate_operator(op, try_attributes, &trial, &range);
    if (trial.silent[0] != '\0')
        check_warn(check, "infer", subject, "a sentence where a node is refused", "use inlay_fail(diag, ...)",
                   "infer refused %s without one", trial.silent);
    if (trial.accepted == 0)
        check_warn(check, "infer", subject, "that it accepts some usual shapes",
                   "see what infer and the signature ask for", "it refused all of %u", trial.refused);
    else
        check_pass(check, "infer", subject, "%u shapes accepted, %u refused", trial.accepted, trial.refused);
}

void check_group_infer(struct check *check)
{
    struct fixture fixture;

    if (!fixture_open(check, "infer", false, &fixture))
        return;
    for (uint32_t i = 0; i < fixture.plugins[0].table.operator_count; i++)
        if (fixture.plugins[0].operators[i].signature != NULL && fixture.plugins[0].operators[i].op_type != NULL)
            try_operator(check, &fixture, &fixture.plugins[0].operators[i]);
    fixture_close(&fixture);
}
