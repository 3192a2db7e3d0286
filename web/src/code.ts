// The script of the pages of codes: they are light or dark as the playground is.

import { applyTheme } from "./theme.ts";

applyTheme();
