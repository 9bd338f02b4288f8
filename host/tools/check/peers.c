#include "check/peers.h"
#include <string.h>

bool peers_run(struct check *check, const struct fixture *fixture, const case_instance *built, const op_case *entry,
               harness_result *out)
{
    const harness_options options = { 0 };

    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < fixture->peer_count; i++) {
        inlay_diag diag = INLAY_DIAG_INIT;
        inlay_status status;
        struct harness harness;

        check_phase(check, "another provider, for comparison");
        if (harness_open(check, &fixture->peers[i], built, entry, 1, &harness, &diag) != INLAY_OK)
            continue;
        status = harness_run(&harness, &options, out, &diag);
        harness_close(&harness);
        if (status == INLAY_OK && out->fault[0] == '\0')
            return true;
        harness_result_deinit(out);
    }
    return false;
}
