// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/spool/support.hpp"
