/* Checks the shape inference of the plugin's operators: with known shapes, symbolic shapes and unknown ranks. */
#include "check/generate.h"
#include "check/loaded.h"
#include <string.h>

struct infer_test {
    struct check *check;
    const struct fixture *fixture;
    const char *subject;
    uint32_t accepted, refused;
    char unexplained[256]; /* a case that was refused without a message */
};

/* Does the message end with the text of the status, which the host inserts if infer wrote none? */
static bool lacks_message(inlay_status status, const inlay_diag *diag)
{
    const char *words = inlay_status_text(status);
    size_t all = strlen(diag->text), own = strlen(words);

    return all < own || strcmp(diag->text + all - own, words) == 0;
}

static bool try_case(void *user, op_case *entry)
{
    struct infer_test *infer_test = user;
    char text[200];

    for (uint32_t known = CASE_SIZES; known <= CASE_RANK_UNKNOWN; known++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;
        case_instance built;

        check_subject(infer_test->check, "%s", case_text(entry, text, sizeof text));
        check_phase(infer_test->check, known == CASE_SIZES     ? "infer"
                                       : known == CASE_SYMBOLS ? "infer with symbolic sizes"
                                                               : "infer with inputs of unknown rank");
        status = case_graph(entry, &infer_test->fixture->operators, known, &built, &diag);
        if (status == INLAY_OK) {
            infer_test->accepted++;
            case_instance_deinit(&built);
        } else {
            infer_test->refused++;
            if (lacks_message(status, &diag))
                (void)snprintf(infer_test->unexplained, sizeof infer_test->unexplained, "%s", text);
        }
    }
    return true;
}

/* Tries extreme values of integer attributes, as a model file may contain. */
static bool try_attributes(void *user, op_case *entry)
{
    static const int64_t numbers[] = { 0, -1, 1 << 20, INT64_MIN, INT64_MAX };
    struct infer_test *infer_test = user;
    inlay_diag diag = INLAY_DIAG_INIT;
    case_instance built;

    /* A bound graph also lists the attributes with default values from the schema. */
    if (case_graph(entry, &infer_test->fixture->operators, CASE_SIZES, &built, &diag) != INLAY_OK)
        return true;
    for (uint32_t a = 0; a < built.model->main->nodes[0]->info.attr_count; a++) {
        inlay_attr_info attr = built.model->main->nodes[0]->info.attrs[a];
        uint32_t count = entry->attr_count;

        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && attr.kind == INLAY_ATTR_INT; i++) {
            attr.i = numbers[i];
            if (case_attr(entry, &attr))
                (void)try_case(infer_test, entry);
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
    struct infer_test infer_test = { .check = check, .fixture = fixture, .subject = subject };

    (void)snprintf(subject, sizeof subject, "%.140s-%u", op->op_type, op->since_version);
    if (!check_unit(check, "%s", subject))
        return;
    generate_operator(op, try_case, &infer_test, &range);
    generate_operator(op, try_attributes, &infer_test, &range);
    if (infer_test.unexplained[0] != '\0')
        check_warn(check, "infer", subject, "a message for a refused node", "use inlay_fail(diag, ...)",
                   "infer refused %s without a message", infer_test.unexplained);
    if (infer_test.accepted == 0)
        check_warn(check, "infer", subject, "some common shapes are accepted",
                   "compare infer and the signature with the operator's inputs", "infer refused all of %u shapes",
                   infer_test.refused);
    else
        check_pass(check, "infer", subject, "%u shapes accepted, %u refused", infer_test.accepted, infer_test.refused);
}

void check_group_infer(struct check *check)
{
    struct fixture fixture;

    if (!fixture_open(check, "infer", false, &fixture))
        return;
    for (uint32_t i = 0; i < fixture.plugins[0].table.operator_count; i++)
        if (loaded_is_whole(&fixture.plugins[0].operators[i]))
            try_operator(check, &fixture, &fixture.plugins[0].operators[i]);
    fixture_close(&fixture);
}
