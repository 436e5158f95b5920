# SPDX-License-Identifier: MIT
"""The shapes of commands' JSON output, as types. docs/formats/schemas/ is generated from them (`make golden`)."""
