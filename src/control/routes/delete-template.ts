/** `DELETE /templates/{templateID}`: the whole template, whatever tag the reference names. */

import { ignored, templateParams } from "../parameters.ts";
import { defineRoute } from "../route.ts";

export const deleteTemplateRoute = defineRoute({
  method: "DELETE",
  path: "/templates/{templateID}",
  auth: "key",
  params: templateParams,
  query: ignored,
  body: ignored,
  async handle({ params }, { sandboxes }) {
    await sandboxes.templates.remove(params.templateID);
    return { status: 204 };
  },
});
