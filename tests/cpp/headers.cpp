// Every public header in a C++ program whose other file includes inlay.hpp.
#include "inlay/inlay.h"
#include "inlay/plugin.h"
#include "inlay/note.h"
#include "inlay/extensions.h"
#include "inlay/kit.h"
#include "inlay/operator.hpp"
#include "inlay/inlay.hpp"

static_assert(inlay::dtype_of<const std::int64_t>() == INLAY_INT64 && inlay::dtype_of<bool>() == INLAY_BOOL,
              "types of elements");
