/* SPDX-License-Identifier: MIT */
/* Names of passes, orders and touch policies, as in options and results. */
#pragma once

#include "replay/engine/result.h"

const char *pass_name(enum replay_pass pass);
const char *order_name(enum replay_order order);
const char *touch_name(enum touch_policy touch);
