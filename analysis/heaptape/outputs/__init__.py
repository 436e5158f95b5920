# SPDX-License-Identifier: MIT
"""The shapes of what commands print as JSON, as types. docs/formats/schemas/ is generated from them (`make golden`)."""
