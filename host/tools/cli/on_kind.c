#include "cli/on_kind.h"
#include "base/core_kind.h"
#include "partition/cost/cost_profile.h"

inlay_status on_kind_open(const char *name, cli_common *common, const char *model, inlay_session **out_session,
                          inlay_diag *diag)
{
    const core_kind *kind;
    inlay_status status;

    INLAY_TRY(core_kind_assume(name, diag));
    kind = core_kind_in_use();
    profile_assume(kind->title, 0);
    INLAY_TRY(inlay_options_set(common->options, "profile", "", diag)); /* it is of this machine */
    INLAY_TRY(inlay_options_set(common->options, "isa", core_kind_isa(kind), diag));
    INLAY_TRY(cli_open(common, model, out_session, diag));
done:
    return status;
}
